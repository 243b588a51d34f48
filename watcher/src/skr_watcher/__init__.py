"""The SKR Watcher: sends the control plane an event for each change in this cluster, and never delays a user's write.

The API server calls it for each change (`admission`); it allows the change at once. `changes` decides whether it is
relevant. Relevant changes go into the `outbox`, one pending entry for each object, and from there as signed events to
the control plane (`delivery`). No failure on that side slows down or denies a user's write.
"""
