"""`klm diff`: what Lifecycle Manager would change in a cluster, as its API server sees it by a dry run.

`reading` finds the objects that are wanted, `report` prints the differences, `command` puts both together.
"""
