"""The Watcher in the SKR: its Deployment, and the webhook by which the API server calls it.

Start with `controller`: the triggers, and what a reconcile does; `rules` decides in between what is installed,
repaired, tested and removed, `apply` has the requests. `timers` and `canary` are what a process remembers of one
Watcher, `documents` are the objects in the SKR, `status` the condition. Its certificate is that of
`watcher_certificates`.
"""

from lifecycle_manager.options.watcher import CanaryTimes, WatcherDeployment, WatcherSettings, WatcherTimes
from lifecycle_manager.skr_webhook.controller import setup

__all__ = ["CanaryTimes", "WatcherDeployment", "WatcherSettings", "WatcherTimes", "setup"]
