"""Real API servers on this machine as child processes: for the demo, the tests, and any other use.

Start with `clusters`: one etcd, a control plane and user clusters, each a `cluster`. `binaries` finds, downloads or
builds etcd and Kubernetes (`release_downloads`, `go_build`); `helm` builds Helm; both use `go_modules`. `cache` keeps
them. `egress` replaces kube-proxy, `certificates` issues certificates, `processes` ends each child process with its
parent. `nodes` adds a real node to each cluster.
"""
