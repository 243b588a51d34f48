"""The Watcher in the SKR: its certificates, its Deployment, and the webhook by which the API server calls it.

Start at `controller`, then `plan`: it decides from a `snapshot` what is installed, repaired, tested and removed, and
`apply` carries that out. `timers` and `canary` are what a process remembers of one Watcher, `documents` are the objects
in the SKR, `status` the condition. `certificates` keeps the certificate of each Watcher, or `issued_certificates` has
it issued by `cert_manager` or `gardener`. `ca_store` and `ca_rotation` keep the CAs that both ends of an event trust.
`watcher_status` is the controller of Watcher CRs.
"""

from lifecycle_manager.skr_webhook.ca_rotation import CARotation, CASettings, setup_ca
from lifecycle_manager.skr_webhook.ca_store import ROTATE, CAStore
from lifecycle_manager.skr_webhook.canary import CanaryTimes
from lifecycle_manager.skr_webhook.cert_manager import CertManagerStore
from lifecycle_manager.skr_webhook.certificates import CertificateMemory, CertificateStore, LeafRules
from lifecycle_manager.skr_webhook.controller import WatcherSettings, setup
from lifecycle_manager.skr_webhook.documents import WatcherDeployment
from lifecycle_manager.skr_webhook.gardener import GardenerStore
from lifecycle_manager.skr_webhook.issued_certificates import CertificatePending
from lifecycle_manager.skr_webhook.status import has_webhook
from lifecycle_manager.skr_webhook.timers import WatcherTimes
from lifecycle_manager.skr_webhook.watcher_status import setup_status

__all__ = [
    "ROTATE",
    "CARotation",
    "CASettings",
    "CAStore",
    "CanaryTimes",
    "CertManagerStore",
    "CertificateMemory",
    "CertificatePending",
    "CertificateStore",
    "GardenerStore",
    "LeafRules",
    "WatcherDeployment",
    "WatcherSettings",
    "WatcherTimes",
    "has_webhook",
    "setup",
    "setup_ca",
    "setup_status",
]
