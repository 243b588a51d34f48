"""A node for clusters without containers: Pods run as processes of this machine. For tests only.

`agent` watches the Pods and Services of a cluster, `pod` runs one Pod, `balancer` forwards to the ready ones.
`containers` translates a container into a process: its image into a program, its mounts into folders, its ports into
free ports of the loopback interface, whose address every Pod has; `environment` resolves the variables. So the real
programs use the arguments, mounts, probes, rights and Services of a chart, with as many processes as replicas. Images,
resource limits, users and networks are not simulated: they belong to a container runtime, and there is none.
"""
