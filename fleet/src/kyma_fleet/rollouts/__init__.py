"""`klm rollout`: how new versions go through the fleet in waves, and what operators do about it.

`plan` says what each verb changes in a ModuleRollout, `report` prints, `command` reads, asks and writes.
"""
