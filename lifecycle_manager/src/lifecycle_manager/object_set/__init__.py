"""A set of objects in an SKR on behalf of one resource in KCP: what may be in it, and how it is applied and pruned."""

from lifecycle_manager.object_set.protected import is_protected

__all__ = ["is_protected"]
