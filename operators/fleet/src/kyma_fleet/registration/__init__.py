"""`klm join` and `klm leave`: a cluster gets into the fleet, and out of it.

`join` and `leave` do it, `accounts` finds the Kyma of a cluster, `progress` waits and prints what
Lifecycle Manager does.
"""
