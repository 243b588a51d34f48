"""`klm check` and `klm version`: is the control plane as Lifecycle Manager needs it.

`findings` judges what was read, in pure functions; `command` reads, as far as the operator may.
"""
