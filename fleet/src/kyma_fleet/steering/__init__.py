"""What an operator does to a fleet: pause, resume, reconcile. Each leaves who, when and why, and an Event.

`plan` says which objects are changed and how, `command` asks, reads and writes.
"""
