"""What the Lifecycle Manager may do, as RBAC rules: `kcp.yaml` in its own namespace of the control plane, `skr.yaml`
in a user cluster; what only an option or a module needs is in files beside them. The charts and the local clusters take
them from here, so that a missing right shows in tests. One that nobody uses does, too."""
