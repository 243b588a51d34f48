"""The CAs that both ends of an event trust, their rotation, and the certificate of each Watcher.

Start at `ca_rotation`, the controller `ca`; `ca_store` has the CAs. `certificates` issues and keeps the certificate of
each Watcher, or `issued_certificates` has it issued by another program: `cert_manager` or `gardener`. Which of them,
`controller` decides by the settings.
"""

from lifecycle_manager.watcher_certificates.controller import setup

__all__ = ["setup"]
