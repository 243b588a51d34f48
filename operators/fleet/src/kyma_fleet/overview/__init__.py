"""`klm status`: how the fleet is, from one pass over its Kymas.

`tally` counts, Kyma by Kyma, and keeps a bounded number of them; `report` turns that into lines; `command` reads.
"""
