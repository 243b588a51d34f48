"""The Watcher in the SKR: its certificates, its Deployment, and the webhook by which the API server calls it.

`authority` keeps the authorities that both sides of an event trust, `rotation` replaces them, `certificates` keeps the
leaf that each SKR's Watcher shows, or `cert_manager` has it issued, `documents` says what belongs into a cluster,
`reconciler` brings it there, and `canary` proves that events come back. `watcher_status` says of each Watcher CR how
far it has come. The webhook itself is put in place only after the Watcher was heard from once, so that no user's write
meets a missing backend.
"""

from lifecycle_manager.skr_webhook.authority import ROTATE, AuthorityStore, StoredAuthorities
from lifecycle_manager.skr_webhook.canary import Canaries, CanaryTimes, is_canary
from lifecycle_manager.skr_webhook.cert_manager import CertificatePending, CertManagerStore
from lifecycle_manager.skr_webhook.certificates import CertificatesRevoked, CertificateStore, LeafRules, LeafStore
from lifecycle_manager.skr_webhook.documents import WatcherSettings, manager_of
from lifecycle_manager.skr_webhook.metrics import AuthorityCollector, certificates_issued
from lifecycle_manager.skr_webhook.reconciler import SkrWebhookReconciler
from lifecycle_manager.skr_webhook.records import TRUST_RECORD, WATCHER_RECORD
from lifecycle_manager.skr_webhook.rotation import AuthorityRotation
from lifecycle_manager.skr_webhook.watcher_status import WatcherStatusReconciler

__all__ = [
    "ROTATE",
    "TRUST_RECORD",
    "WATCHER_RECORD",
    "AuthorityCollector",
    "AuthorityRotation",
    "AuthorityStore",
    "Canaries",
    "CanaryTimes",
    "CertManagerStore",
    "CertificatePending",
    "CertificateStore",
    "CertificatesRevoked",
    "LeafRules",
    "LeafStore",
    "SkrWebhookReconciler",
    "StoredAuthorities",
    "WatcherSettings",
    "WatcherStatusReconciler",
    "certificates_issued",
    "is_canary",
    "manager_of",
]
