"""The fleet page: every cluster of a control plane, live and read-only, for operators.

`serving` is for a replica of Lifecycle Manager, `own_page` for `klm ui`; both serve what `app` creates. Nothing is
imported here, since `klm` asks this package for its command.
"""
