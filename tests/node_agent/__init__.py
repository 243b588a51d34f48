"""A node for clusters without containers: Pods become processes of this machine. For tests only.

`agent` follows a cluster's Pods and Services, `pod` runs one Pod, `balancer` leads to those that are ready.
`containers` says what of a container's description becomes what of a process: its image a program, its mounts
folders, its ports free ports of the loopback interface, whose address every Pod has; `environment` says what its
words refer to. So the arguments, mounts, probes, rights and Services of a chart are used by the real programs, by
as many of each as there are replicas. What is not done: images, resource limits, users and networks. Those are the
container runtime's, and none is here.
"""
