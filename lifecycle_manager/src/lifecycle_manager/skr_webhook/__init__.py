"""The Watcher in the SKR: its Deployment, and the webhook by which the API server calls it.

Start at `controller`, then `plan`: it decides from a `snapshot` what is installed, repaired, tested and removed, and
`apply` carries that out. `timers` and `canary` are what a process remembers of one Watcher, `documents` are the objects
in the SKR, `status` the condition. Its certificate is that of `watcher_certificates`.
"""

from lifecycle_manager.skr_webhook.canary import CanaryTimes
from lifecycle_manager.skr_webhook.controller import WatcherSettings, setup
from lifecycle_manager.skr_webhook.documents import WatcherDeployment
from lifecycle_manager.skr_webhook.timers import WatcherTimes

__all__ = ["CanaryTimes", "WatcherDeployment", "WatcherSettings", "WatcherTimes", "setup"]
