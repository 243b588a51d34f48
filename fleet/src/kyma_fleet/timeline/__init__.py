"""`klm trace`: a timeline of the writes for a Kyma, from the resources and Events themselves.

`command` prints what `kyma_fleet.explanation` finds. API servers record writes to the second.
"""
