"""The demo: a user's change on real API servers, step by step, each step verified in the clusters.

`walkthrough` is the sequence of steps; `environment` prepares the clusters and identities; `programs` starts the
Lifecycle Manager, the Watcher and a Module Manager, each as its own process with only the rights it needs; `timeline`
finds one change in their logs; `measure` repeats it and measures the floor; `output` prints the steps.
"""
