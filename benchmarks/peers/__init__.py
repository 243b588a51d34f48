"""The runtime's peers, and what they are compared on.

`things` is the kind of object that all programs watch, with the means to have many of them quickly. `runtime` is ours,
`kopf_operator` and `controller_runtime/` (in Go) are the peers; each is a process of its own that does the same work
through its own library. `programs` starts them, reads what they report, and measures them from outside.
`controller_runtime_build` has the Go program built, once.
"""
