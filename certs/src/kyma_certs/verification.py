"""Verification of client certificates against a bundle of CAs."""

from datetime import datetime
from functools import lru_cache

from cryptography import x509
from cryptography.x509 import verification
from cryptography.x509.oid import ExtendedKeyUsageOID


class CertificateRejected(Exception):
    """The certificate is not trusted; the message says why."""


def verify_chain(leaf_der: bytes, bundle_pem: bytes, *, now: datetime, any_usage: bool = False) -> x509.Certificate:
    """Return the certificate if a CA of the bundle issued it for clients; with `any_usage` also one without a usage.

    Raises CertificateRejected.
    """
    try:
        leaf = x509.load_der_x509_certificate(leaf_der)
        verification.PolicyBuilder().store(_store(bundle_pem)).time(now).build_client_verifier().verify(leaf, [])
    except (ValueError, verification.VerificationError) as error:
        raise CertificateRejected(str(error)) from None
    if not _is_for_clients(leaf, any_usage=any_usage):
        raise CertificateRejected("the certificate has no extended key usage clientAuth")
    return leaf


def _is_for_clients(leaf: x509.Certificate, *, any_usage: bool) -> bool:
    """Return whether a certificate has the usage clientAuth. One without any usage would be valid for all."""
    try:
        usages = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return any_usage
    return ExtendedKeyUsageOID.CLIENT_AUTH in usages


@lru_cache(maxsize=16)
def _store(bundle_pem: bytes) -> verification.Store:
    return verification.Store(x509.load_pem_x509_certificates(bundle_pem))
