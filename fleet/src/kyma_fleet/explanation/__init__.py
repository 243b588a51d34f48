"""`klm explain`: why a cluster is as it is, in the order of cause.

`report` prints the chains of `lifecycle_manager.explanation`, which the fleet page shows as well.
"""
