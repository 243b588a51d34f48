"""Certificates without Kubernetes: an authority, what it issues, whom to trust, and TLS contexts that follow files."""

from certs.contexts import ReloadingClientContext, ReloadingServerContext
from certs.issuing import Algorithm, KeyPair, LeafRequest, Usage, create_authority, issue
from certs.reading import CertificateInfo, bundle, describe, describe_certificate, renewal_due
from certs.verification import CertificateRejected, verify_chain

__all__ = [
    "Algorithm",
    "CertificateInfo",
    "CertificateRejected",
    "KeyPair",
    "LeafRequest",
    "ReloadingClientContext",
    "ReloadingServerContext",
    "Usage",
    "bundle",
    "create_authority",
    "describe",
    "describe_certificate",
    "issue",
    "renewal_due",
    "verify_chain",
]
