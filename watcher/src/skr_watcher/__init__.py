"""The SKR Watcher: tells the control plane that something changed in this cluster, and is never in the user's way.

The API server asks it about each change (`admission`); it allows at once. Whether the change matters is decided by
`changes`; what matters goes into the `outbox`, one pending entry an object, and from there as a signed event to the
control plane (`delivery`). Nothing that happens on that side can slow down or refuse a user's write.
"""
