"""The CAs that both ends of an event trust, their rotation, and the certificate of each Watcher.

Start at `ca_rotation`, the controller `ca`; `ca_store` has the CAs. `certificates` issues and keeps the certificate of
each Watcher, or `issued_certificates` has it issued by another program: `cert_manager` or `gardener`. Which of them,
`controller` decides by the settings.
"""

from lifecycle_manager.options.watcher import CertificateSettings, LeafRules
from lifecycle_manager.watcher_certificates.ca_rotation import CARotation, setup_ca
from lifecycle_manager.watcher_certificates.ca_store import ROTATE, CAStore
from lifecycle_manager.watcher_certificates.certificates import CertificateMemory, LeafStore
from lifecycle_manager.watcher_certificates.controller import setup

__all__ = [
    "ROTATE",
    "CARotation",
    "CAStore",
    "CertificateMemory",
    "CertificateSettings",
    "LeafRules",
    "LeafStore",
    "setup",
    "setup_ca",
]
