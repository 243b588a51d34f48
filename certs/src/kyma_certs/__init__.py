"""Certificates without Kubernetes: CAs and their rotation, leaf certificates, TLS contexts that reload their files.

Start with `issuing` (create a CA, issue a certificate) and `rotation`; `message_signatures` signs HTTP requests.
"""

from kyma_certs.contexts import ReloadingClientContext, ReloadingServerContext
from kyma_certs.fips import FipsMode, FipsUnavailable, fips_mode
from kyma_certs.issuing import (
    CLOCK_SKEW,
    Algorithm,
    KeyPair,
    LeafRequest,
    NameRefused,
    Usage,
    create_ca,
    is_common_name,
    is_dns_name,
    issue,
)
from kyma_certs.reading import (
    CertificateInfo,
    bundle,
    describe,
    describe_certificate,
    has_own_key,
    is_ca,
    issued_by,
    key_of,
    renewal_due,
)
from kyma_certs.rotation import CAs, RotationRules, RotationStep, announced, dropped, next_step, spread, switched
from kyma_certs.verification import CertificateRejected, verify_chain

__all__ = [
    "CLOCK_SKEW",
    "Algorithm",
    "CAs",
    "CertificateInfo",
    "CertificateRejected",
    "FipsMode",
    "FipsUnavailable",
    "KeyPair",
    "LeafRequest",
    "NameRefused",
    "ReloadingClientContext",
    "ReloadingServerContext",
    "RotationRules",
    "RotationStep",
    "Usage",
    "announced",
    "bundle",
    "create_ca",
    "describe",
    "describe_certificate",
    "dropped",
    "fips_mode",
    "has_own_key",
    "is_ca",
    "is_common_name",
    "is_dns_name",
    "issue",
    "issued_by",
    "key_of",
    "next_step",
    "renewal_due",
    "spread",
    "switched",
    "verify_chain",
]
