"""`klm trace`: when what was written for a Kyma, from the resources and Events themselves.

`moments` finds them in documents, `command` reads and prints. API servers record writes to the second.
"""
