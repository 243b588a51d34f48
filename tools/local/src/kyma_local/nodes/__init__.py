"""A real node for each local cluster: containerd, kubelet and kube-proxy in namespaces of their own, on Linux as root.

Start with `node`: it starts `init` as process 1 of a new PID, mount and network namespace, so that nothing outlives it,
however it ends. `network` connects the nodes with each other and with the API servers, `folders` has what a node leaves
in the file system, `programs` and `images` build what runs there, `settings` and `objects` configure it, and
`requirements` says what the machine lacks.
"""
