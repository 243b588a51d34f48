"""The Watcher in the SKR: its Deployment, and the webhook by which the API server calls it.

Start with `controller`: the triggers, and what a reconcile does; `rules` decides in between what is installed,
repaired, tested and removed, `apply` has the requests. `timers` and `canary` are what a process remembers of one
Watcher, `documents` are the objects in the SKR, `status` the condition. Its certificate is that of
`watcher_certificates`.
"""

from typing import TYPE_CHECKING

from kube_runtime.lazy import lazy

if TYPE_CHECKING:
    from lifecycle_manager.skr_webhook.controller import setup
    from lifecycle_manager.skr_webhook.settings import CanaryTimes, WatcherDeployment, WatcherSettings, WatcherTimes
else:
    __getattr__ = lazy(
        __name__,
        {
            "controller": "setup",
            "settings": "CanaryTimes WatcherDeployment WatcherSettings WatcherTimes",
        },
    )

__all__ = ["CanaryTimes", "WatcherDeployment", "WatcherSettings", "WatcherTimes", "setup"]
