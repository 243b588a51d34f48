"""A node for clusters without containers: Pods become processes of this machine. For tests only.

`agent` follows a cluster's Pods and Services, `pod` runs one Pod, `containers` says what of a container's description
becomes what of a process: its image a program, its mounts folders, its ports free ports of the loopback interface.
So the arguments, mounts, probes, rights and Services of a chart are used by the real programs. What is not done:
images, resource limits, users and networks. Those are the container runtime's, and none is here.
"""
