"""The demo: the main job on real API servers, told step by step, each step read back from the clusters.

`story` is the sequence that a person sees; `stage` builds the clusters and identities it plays on; `processes` runs
the Lifecycle Manager, the Watcher and a Module Manager, each as a process of its own with the rights it needs and no
more; `timeline` follows one change through their logs; `measure` repeats it and finds the floor.
"""
