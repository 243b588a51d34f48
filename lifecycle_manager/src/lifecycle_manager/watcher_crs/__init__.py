"""Watcher CRs: whether the webhooks of all SKRs are made from one, and the finalizers of the former version on it.

Start at `controller`. Which Watcher CRs are valid is in `contract.watchers`, as the domain `skr_webhook` makes the
webhooks of them.
"""

from lifecycle_manager.watcher_crs.controller import setup

__all__ = ["setup"]
