"""cert-manager as the Go version uses it: a CA of its own, and a Secret for each Certificate, issued when asked."""

import asyncio
import base64
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from kube_runtime import Client, ClusterUnreachable, Conflict, NotFound, NotServed
from kyma_certs import KeyPair
from lifecycle_manager.watcher_certificates.cert_manager import CERTIFICATES
from lifecycle_manager_api import names
from tests.kinds import SECRETS

Document = dict[str, Any]
NAMESPACE = "istio-system"
CA = "klm-watcher"
POLL_SECONDS = 0.3
LIFETIME = timedelta(days=60)
SURROUNDINGS = f"""
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {{name: watcher-root, namespace: {NAMESPACE}}}
spec: {{selfSigned: {{}}}}
---
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {{name: klm-watcher-selfsigned, namespace: {NAMESPACE}}}
spec: {{ca: {{secretName: {CA}}}}}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {{name: klm-watcher-serving, namespace: {NAMESPACE}}}
spec:
  isCA: true
  commonName: klm-watcher-selfsigned-ca
  dnsNames: [listener.kyma.example.com]
  secretName: {CA}
  secretTemplate: {{labels: {{{names.MANAGED_BY}: {names.LIFECYCLE_MANAGER}}}}}
  issuerRef: {{name: watcher-root, kind: Issuer}}
"""
"""What the installation of the Go version asks of it; the rest it asks itself."""


async def run(kcp: Client) -> None:
    """Issue what is missing or asked for again, until cancelled."""
    ca: KeyPair | None = None
    while True:
        with suppress(ClusterUnreachable):  # the API server is restarted
            for each in (await kcp.list(CERTIFICATES, NAMESPACE)).items:
                if not each["spec"].get("isCA") and ca is None:
                    continue
                with suppress(NotFound, NotServed, Conflict):  # changed meanwhile; the next turn sees it
                    if await _is_due(kcp, each):
                        issued = await _issue(kcp, each, ca)
                        ca = issued if each["spec"].get("isCA") else ca
        await asyncio.sleep(POLL_SECONDS)


async def _is_due(kcp: Client, certificate: Document) -> bool:
    if any(each["type"] == "Issuing" and each["status"] == "True" for each in _conditions(certificate)):
        return True
    try:
        await kcp.get(SECRETS, certificate["spec"]["secretName"], NAMESPACE)
    except (NotFound, NotServed):
        return True
    return False


async def _issue(kcp: Client, certificate: Document, ca: KeyPair | None) -> KeyPair:
    spec, now = certificate["spec"], datetime.now(UTC).replace(microsecond=0)
    pair = await asyncio.to_thread(issued, spec["commonName"], tuple(filter(None, spec["dnsNames"])), now, ca)
    signer = ca or pair
    data = {"tls.crt": pair.certificate_pem, "tls.key": pair.key_pem, "ca.crt": signer.certificate_pem}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": spec["secretName"], "labels": spec["secretTemplate"]["labels"]},
        "type": "kubernetes.io/tls",
        "data": {name: base64.b64encode(content).decode() for name, content in data.items()},
    }
    issuing = "cert-manager-certificates-issuing"
    await kcp.apply(SECRETS, spec["secretName"], secret, NAMESPACE, field_manager=issuing)
    metadata = certificate["metadata"]
    status = {
        "notBefore": f"{now:%Y-%m-%dT%H:%M:%SZ}",
        "notAfter": f"{now + LIFETIME:%Y-%m-%dT%H:%M:%SZ}",
        "renewalTime": f"{now + LIFETIME / 2:%Y-%m-%dT%H:%M:%SZ}",
        "revision": int(certificate.get("status", {}).get("revision", 0)) + 1,
        "conditions": [each for each in _conditions(certificate) if each["type"] != "Issuing"],
    }
    patch = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "status": status}
    name, manager = metadata["name"], "cert-manager"
    await kcp.merge_patch(CERTIFICATES, name, patch, NAMESPACE, subresource="status", field_manager=manager)
    return pair


def issued(common_name: str, hosts: tuple[str, ...], now: datetime, ca: KeyPair | None, *, key_of: str = "") -> KeyPair:
    """Issue a certificate as cert-manager does, with RSA, and without an extended usage; a CA where none is given.

    `key_of` names the key, where it is one of its own.
    """
    key = _key(key_of or ("a CA" if ca is None else "the others"))
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    issuer, issuer_key = subject, key
    if ca is not None:
        issuer = x509.load_pem_x509_certificate(ca.certificate_pem).subject
        loaded = serialization.load_pem_private_key(ca.key_pem, None)
        assert isinstance(loaded, rsa.RSAPrivateKey)
        issuer_key = loaded
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + LIFETIME)
        .add_extension(_usage(is_ca=ca is None), critical=True)
        .add_extension(x509.BasicConstraints(ca=ca is None, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(each) for each in hosts]), critical=False)
    )
    if ca is None:
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    else:
        key_of_ca = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
        builder = builder.add_extension(key_of_ca, critical=False)
    certificate = builder.sign(issuer_key, hashes.SHA256())
    return KeyPair(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        ),
    )


@cache
def _key(_of: str) -> rsa.RSAPrivateKey:
    """Return the key of a name; all certificates that are no CA share one, since to make one takes long."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def _usage(*, is_ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_encipherment=True,
        key_cert_sign=is_ca,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def _conditions(certificate: Document) -> list[Document]:
    found: list[Document] = (certificate.get("status") or {}).get("conditions") or []
    return found
