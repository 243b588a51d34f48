"""`klm adopt`: takes a control plane over from the Lifecycle Manager in Go, and gives it back.

`reading` counts what there is, page by page; `deployment` says what the former version runs with, `cluster` what
changes in one cluster, and `findings` what is in the way; `report` prints it.
"""
