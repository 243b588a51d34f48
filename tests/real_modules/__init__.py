"""Real manifests, and random ones, installed by the product beside what kubectl and Flux make of them.

`objects` draws valid documents, `steps` what happens to them, `walk` has both happen in two clusters and compares by
`comparison`; `oracle` runs kubectl and Flux. `corpus` finds real manifests. `make real-modules` runs all for some time.
"""
