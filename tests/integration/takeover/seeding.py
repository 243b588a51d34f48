"""Writes what the former version leaves behind, from the files in `data`, with its field managers and certificates."""

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from string import Template
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from kube_runtime import Client, load_documents
from kyma_certs import KeyPair
from lifecycle_manager_api import crds, names
from tests.kinds import DEPLOYMENTS

Document = dict[str, Any]
DATA = Path(__file__).parent / "data"
KYMA = "6c3ee92f-0f51-4b0a-a1c2-5a58cbbd2f31"
MANIFEST = "6c3ee92f-0f51-4b0a-a1c2-5a58cbbd2f31-template-operator-2235966"
MODULE = "template-operator"
PULL_SECRET = "former-pull-secret"
APPLIER = "declarative.kyma-project.io/applier"
READY_STATUS = {
    "observedGeneration": 1,
    "replicas": 1,
    "updatedReplicas": 1,
    "readyReplicas": 1,
    "availableReplicas": 1,
}


@dataclass(frozen=True)
class Certificates:
    """The CA as cert-manager issues it for the former version, the one before it, and the certificate of a Watcher."""

    ca: KeyPair
    former_ca: KeyPair
    leaf: KeyPair

    @property
    def bundle(self) -> bytes:
        """What the former version has clusters trust."""
        return self.ca.certificate_pem + self.former_ca.certificate_pem


@dataclass(frozen=True)
class Seed:
    """What is filled into the files. `layers` are the digests of the module's versions."""

    registry: str = ""
    layers: tuple[str, str] = ("", "")
    kubeconfig: str = ""
    kyma_uid: str = ""
    renewed_at: datetime = field(default_factory=lambda: datetime.now(UTC) - timedelta(hours=1))

    def values(self) -> dict[str, str]:
        issued = certificates()
        return {
            "KYMA": KYMA,
            "KYMA_UID": self.kyma_uid,
            "MANIFEST": MANIFEST,
            "REGISTRY": self.registry,
            "LAYER_1": self.layers[0],
            "LAYER_2": self.layers[1],
            "KUBECONFIG": encoded(self.kubeconfig.encode()),
            "RENEW_TIME": f'"{self.renewed_at:%Y-%m-%dT%H:%M:%S.%fZ}"',
            "CA_CRT": encoded(issued.ca.certificate_pem),
            "CA_KEY": encoded(issued.ca.key_pem),
            "CA_BUNDLE": encoded(issued.bundle),
            "LEAF_CRT": encoded(issued.leaf.certificate_pem),
            "LEAF_KEY": encoded(issued.leaf.key_pem),
        }


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def module_text(number: int) -> str:
    """Return the objects of a version of the module, as its layer has them."""
    return (DATA / f"module_{number}.yaml").read_text()


def writes_of(name: str, seed: Seed) -> list[Document]:
    text = Template((DATA / f"{name}.yaml").read_text()).substitute(seed.values())
    return list(load_documents(text))


async def write(client: Client, name: str, seed: Seed) -> None:
    for each in writes_of(name, seed):
        await carry_out(client, each)


async def carry_out(client: Client, written: Mapping[str, Any]) -> None:
    document, manager = written["object"], written["fieldManager"]
    if written.get("operation") != "update":
        await apply(client, document, manager, subresource=written.get("subresource"))
        return
    resource = await client.mapper.resource(document["apiVersion"], document["kind"])
    metadata = document["metadata"]
    if "finalizers" in metadata:
        patch = {"metadata": {"finalizers": metadata["finalizers"]}}
        await client.merge_patch(resource, metadata["name"], patch, metadata.get("namespace"), field_manager=manager)
    else:
        await client.create(resource, document, metadata.get("namespace"), field_manager=manager)


async def apply(client: Client, document: Document, manager: str, *, subresource: str | None = None) -> Document:
    """Apply a document under a field manager, and return the object."""
    resource = await client.mapper.resource(document["apiVersion"], document["kind"])
    metadata = document["metadata"]
    return await client.apply(
        resource,
        metadata["name"],
        document,
        metadata.get("namespace"),
        field_manager=manager,
        subresource=subresource,
    )


async def apply_crds_of_the_cluster(client: Client) -> None:
    """Apply the CRDs of the former version in a cluster, and wait until they are served."""
    for document in (crds.crd_for(kind) for kind in crds.KINDS if kind.KIND in SKR_KINDS):
        await apply(client, document, names.LIFECYCLE_MANAGER)


SKR_KINDS = ("Kyma", "ModuleTemplate", "ModuleReleaseMeta")


def module_objects(number: int) -> Iterator[Document]:
    """Yield the objects of a version with the marks that the former version puts on them."""
    for document in load_documents(module_text(number)):
        metadata = document["metadata"]
        metadata["labels"] = {
            **metadata.get("labels", {}),
            names.MANAGED_BY: "kyma",
            names.WATCHED_BY: "kyma",
            "app.kubernetes.io/component": MANIFEST,
            "app.kubernetes.io/part-of": "Kyma",
        }
        metadata["annotations"] = {
            **metadata.get("annotations", {}),
            names.DEPRECATED_OWNED_BY: f"{names.KCP_NAMESPACE}/{MANIFEST}",
            f"{names.GROUP}/managed-by-reconciler-disclaimer": "do not edit",
        }
        if document["kind"] == "Deployment":
            pod = document["spec"]["template"]["spec"]
            pod["imagePullSecrets"] = [{"name": PULL_SECRET}]
            for container in pod["containers"]:
                container["env"] = [*container.get("env", ()), {"name": "SKR_IMG_PULL_SECRET", "value": PULL_SECRET}]
        yield document


async def install_module(client: Client) -> None:
    """Install the first version of the module as the former version did, and have its Deployment run."""
    for document in module_objects(1):
        await apply(client, document, APPLIER)
    await run_deployment(client)


async def run_deployment(client: Client) -> None:
    """Have the Deployment of the module run its newest generation: no controller does here."""
    live = await client.get(DEPLOYMENTS, MODULE, names.SKR_NAMESPACE)
    status = READY_STATUS | {"observedGeneration": live["metadata"]["generation"]}
    await client.merge_patch(
        DEPLOYMENTS, MODULE, {"status": status}, names.SKR_NAMESPACE, subresource="status", field_manager="controller"
    )


@cache
def certificates() -> Certificates:
    """Return certificates as cert-manager issues them: RSA, and leaves without an extended usage."""
    former_ca = issued("klm-watcher-selfsigned-ca", None)
    ca = issued("klm-watcher-selfsigned-ca", None)
    return Certificates(ca, former_ca, issued(KYMA, ca))


def issued(common_name: str, ca: KeyPair | None) -> KeyPair:
    """Issue a certificate, a CA where none is given."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    subject = x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Example"), x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    )
    issuer, issuer_key = subject, key
    if ca is not None:
        issuer = x509.load_pem_x509_certificate(ca.certificate_pem).subject
        loaded = serialization.load_pem_private_key(ca.key_pem, None)
        assert isinstance(loaded, rsa.RSAPrivateKey)
        issuer_key = loaded
    now = datetime.now(UTC)
    usage = x509.KeyUsage(
        digital_signature=True,
        key_encipherment=True,
        key_cert_sign=ca is None,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
    host = "listener.kyma.example.com" if ca is None else f"skr-webhook.{names.SKR_NAMESPACE}.svc"
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=89))
        .add_extension(usage, critical=True)
        .add_extension(x509.BasicConstraints(ca=ca is None, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
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
