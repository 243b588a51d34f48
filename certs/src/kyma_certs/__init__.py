"""Certificates without Kubernetes: authorities and their rotation, what they issue, TLS contexts that follow files."""

from kyma_certs.authorities import (
    Authorities,
    RotationRules,
    Step,
    announced,
    dropped,
    next_step,
    spread,
    switched,
)
from kyma_certs.contexts import ReloadingClientContext, ReloadingServerContext
from kyma_certs.issuing import (
    CLOCK_SKEW,
    Algorithm,
    KeyPair,
    LeafRequest,
    NameRefused,
    Usage,
    create_authority,
    is_common_name,
    issue,
)
from kyma_certs.reading import CertificateInfo, bundle, describe, describe_certificate, issued_by, key_of, renewal_due
from kyma_certs.verification import CertificateRejected, verify_chain

__all__ = [
    "CLOCK_SKEW",
    "Algorithm",
    "Authorities",
    "CertificateInfo",
    "CertificateRejected",
    "KeyPair",
    "LeafRequest",
    "NameRefused",
    "ReloadingClientContext",
    "ReloadingServerContext",
    "RotationRules",
    "Step",
    "Usage",
    "announced",
    "bundle",
    "create_authority",
    "describe",
    "describe_certificate",
    "dropped",
    "is_common_name",
    "issue",
    "issued_by",
    "key_of",
    "next_step",
    "renewal_due",
    "spread",
    "switched",
    "verify_chain",
]
