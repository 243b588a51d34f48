"""Clusters as the Lifecycle Manager in Go left them: all that is recorded, and anew what is not, such as Secrets."""

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kube_runtime import Client
from kyma_certs import KeyPair
from tests.kinds import crd_of
from tests.takeover_from_go import cert_manager, surroundings
from tests.takeover_from_go.recordings import FIRST, FOREIGN_GROUPS, REGISTRY, restore, the
from tests.waiting import eventually

Document = dict[str, Any]
Contents = Mapping[str, Mapping[str, bytes]]
"""What Secrets contain, by the name of each."""
PULL: Contents = {surroundings.PULL_SECRET: {".dockerconfigjson": surroundings.DOCKER_CONFIG.encode()}}
FIRST_KINDS = ("Namespace", "Kyma", "Watcher", "ModuleTemplate")
"""Kinds that others are in, or are owned by."""


@dataclass(frozen=True)
class Certificates:
    """The CA as cert-manager issues it for the Go version, the one before it, and the certificates of Watchers."""

    ca: KeyPair
    former_ca: KeyPair

    @classmethod
    def issue(cls) -> "Certificates":
        """Issue two CAs."""
        name, hosts = "klm-watcher-selfsigned-ca", (surroundings.GATEWAY_HOST,)
        former = cert_manager.issued(name, hosts, _now(), None, key_of="the former CA")
        return cls(cert_manager.issued(name, hosts, _now(), None), former)

    @property
    def bundle(self) -> bytes:
        """What clusters and the gateway trust."""
        return self.ca.certificate_pem + self.former_ca.certificate_pem

    def leaf(self, runtime: str) -> KeyPair:
        """Issue the certificate of a Watcher, as that of the first Kyma was asked for."""
        spec = the("kcp", "Certificate", FIRST)["spec"]
        hosts = [each.replace(FIRST, runtime) for each in filter(None, spec["dnsNames"])]
        return cert_manager.issued(spec["commonName"].replace(FIRST, runtime), tuple(hosts), _now(), self.ca)

    def secrets(self) -> Contents:
        """Return the contents of the Secrets that the control plane has for all clusters."""
        gateway = {**_tls(self.ca, self.ca.certificate_pem), "ca.crt": self.bundle}
        return {**PULL, cert_manager.CA: _tls(self.ca, self.ca.certificate_pem), "klm-istio-gateway": gateway}

    def secrets_of(self, runtime: str, leaf: KeyPair, kubeconfig: str) -> Contents:
        """Return the contents of the Secrets that the control plane has for a cluster."""
        tls = _tls(leaf, self.ca.certificate_pem)
        return {f"kubeconfig-{runtime}": {"config": kubeconfig.encode()}, f"{runtime}-webhook-tls": tls}

    def secrets_in(self, leaf: KeyPair) -> Contents:
        """Return the contents of the Secrets in a cluster."""
        return {**PULL, "skr-webhook-tls": _tls(leaf, self.bundle)}


def secrets_of(kubeconfigs: Mapping[str, str], issued: Certificates) -> dict[str, Contents]:
    """Return the contents of the Secrets of all clusters, by cluster. `kubeconfigs` has those of the runtimes."""
    found: dict[str, Contents] = {"kcp": issued.secrets()}
    for number, (runtime, kubeconfig) in enumerate(kubeconfigs.items(), start=1):
        leaf = issued.leaf(runtime)
        found["kcp"] = {**found["kcp"], **issued.secrets_of(runtime, leaf, kubeconfig)}
        found[f"skr-{number}"] = issued.secrets_in(leaf)
    return found


async def restore_cluster(client: Client, documents: list[Document], contents: Contents, registry: str) -> None:
    """Create recorded objects, all of a cluster. `registry` is where modules are."""
    crds = [each for each in documents if each["kind"] == "CustomResourceDefinition"]
    others = sorted((each for each in documents if each not in crds), key=_rank)
    await restore(client, crds)
    for each in foreign_crds(others):
        await surroundings.apply(client, each, "kustomize")

    async def are_served() -> bool:
        return all([await surroundings.is_served(client, each) for each in others])

    await eventually(are_served, what="the kinds of the cluster are served")
    await restore(client, [filled(each, contents) for each in others], {REGISTRY: registry})


def filled(document: Document, contents: Contents) -> Document:
    """Return an object with what is secret, and so left out of the recording."""
    if document["kind"] == "Secret":
        held = contents[document["metadata"]["name"]]
        return {**document, "data": {key: base64.b64encode(held[key]).decode() for key in document["data"]}}
    if document["kind"] == "ValidatingWebhookConfiguration":
        ca = base64.b64encode(contents["skr-webhook-tls"]["ca.crt"]).decode()
        webhooks = [{**each, "clientConfig": {**each["clientConfig"], "caBundle": ca}} for each in document["webhooks"]]
        return {**document, "webhooks": webhooks}
    return document


def foreign_crds(documents: Iterable[Document]) -> list[Document]:
    """Return CRDs for the kinds of others, whose own ones are not recorded, with any content."""
    foreign = (each for each in documents if each["apiVersion"].partition("/")[0].endswith(FOREIGN_GROUPS))
    return list({each["kind"]: _crd_for(each) for each in foreign}.values())


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


def _tls(pair: KeyPair, ca: bytes) -> dict[str, bytes]:
    return {"tls.crt": pair.certificate_pem, "tls.key": pair.key_pem, "ca.crt": ca}


def _rank(document: Document) -> int:
    return FIRST_KINDS.index(document["kind"]) if document["kind"] in FIRST_KINDS else len(FIRST_KINDS)


def _crd_for(document: Document) -> Document:
    group, _, version = document["apiVersion"].partition("/")
    written = {each["apiVersion"].partition("/")[2] for each in document["metadata"].get("managedFields") or ()}
    return crd_of(group, document["kind"], *written, version, stored=version, has_status=True)
