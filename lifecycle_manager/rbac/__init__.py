"""What the Lifecycle Manager may do, as RBAC rules: `kcp.yaml` in its own namespace of the control plane, `skr.yaml`
in a user cluster. The charts and the local clusters take them from here, so that a missing right shows in tests."""
