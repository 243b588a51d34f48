"""Real API servers on this machine, as child processes, for the demo, the tests and anyone who wants some.

Start with `clusters`: one etcd, a control plane and user clusters, each of them a `cluster`. `binaries` finds or makes
the programs that they run (`release_downloads`, `go_build`), `helm` the one that installs charts, both with
`go_modules`; `egress` takes the place of kube-proxy, `pki` issues their certificates, `processes` sees to it that no
child outlives its parent. `demo` plays the main job on top of it; `chart_files` writes what the charts repeat.
"""
