"""Whether a certificate leads to one that is trusted, now, for a purpose."""

from datetime import datetime

from cryptography import x509
from cryptography.x509 import verification

from certs.issuing import Usage


class CertificateRejected(Exception):
    """The certificate is not to be believed; the message says why."""


def verify_chain(leaf_der: bytes, bundle_pem: bytes, *, usage: Usage, now: datetime) -> x509.Certificate:
    """Return the certificate if an authority of the bundle vouches for it. Raises CertificateRejected."""
    try:
        leaf = x509.load_der_x509_certificate(leaf_der)
        store = verification.Store(x509.load_pem_x509_certificates(bundle_pem))
        builder = verification.PolicyBuilder().store(store).time(now)
        if usage is Usage.CLIENT:
            builder.build_client_verifier().verify(leaf, [])
        else:
            raise CertificateRejected("only client certificates are verified here")
    except (ValueError, verification.VerificationError) as error:
        raise CertificateRejected(str(error)) from None
    return leaf
