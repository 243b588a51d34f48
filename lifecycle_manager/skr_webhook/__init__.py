"""The Watcher in the SKR: its certificates, its Deployment, and the webhook by which the API server calls it.

`authority` keeps the CA that both sides of an event trust, `certificates` the leaf that each SKR's Watcher shows,
`documents` says what belongs into a cluster, `reconciler` brings it there, and `canary` proves that events come back.
`watcher_status` says of each Watcher CR how far it has come.
The webhook itself is put in place only after the Watcher was heard from once, so that no user's write meets a missing
backend.
"""

from lifecycle_manager.skr_webhook.authority import AuthorityStore
from lifecycle_manager.skr_webhook.canary import Canaries, CanaryTimes, is_canary
from lifecycle_manager.skr_webhook.certificates import CertificateStore
from lifecycle_manager.skr_webhook.documents import WatcherSettings, manager_of
from lifecycle_manager.skr_webhook.reconciler import SkrWebhookReconciler
from lifecycle_manager.skr_webhook.watcher_status import WATCHER_RECORD, WatcherStatusReconciler

__all__ = [
    "WATCHER_RECORD",
    "AuthorityStore",
    "Canaries",
    "CanaryTimes",
    "CertificateStore",
    "SkrWebhookReconciler",
    "WatcherSettings",
    "WatcherStatusReconciler",
    "is_canary",
    "manager_of",
]
