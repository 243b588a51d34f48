"""Clusters as the Lifecycle Manager in Go left them: all that is recorded, and anew what is not, such as Secrets."""

import base64
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from kube_runtime import Client
from kyma_certs import KeyPair
from tests.takeover_from_go import cert_manager, surroundings
from tests.takeover_from_go.recordings import FOREIGN_GROUPS, REGISTRY, left_out, recorded, restore, the
from tests.waiting import eventually

Document = dict[str, Any]
Contents = Mapping[str, Mapping[str, bytes]]
"""What Secrets contain, by the name of each."""
FIRST_KINDS = ("Namespace", "Kyma", "Watcher", "ModuleTemplate")
"""Kinds that others are in, or are owned by."""


def secrets_of(kubeconfigs: Mapping[str, str]) -> dict[str, Contents]:
    """Return the contents of the Secrets of all clusters, by cluster. `kubeconfigs` has those of the runtimes."""
    now = datetime.now(UTC).replace(microsecond=0)
    ca = cert_manager.issued("klm-watcher-selfsigned-ca", (surroundings.GATEWAY_HOST,), now, None)
    pull = {surroundings.PULL_SECRET: {".dockerconfigjson": surroundings.DOCKER_CONFIG.encode()}}
    kcp = {**pull, cert_manager.CA: _tls(ca, ca), "klm-istio-gateway": _tls(ca, ca)}
    found: dict[str, Contents] = {"kcp": kcp}
    for number, (runtime, kubeconfig) in enumerate(kubeconfigs.items(), start=1):
        spec = the("kcp", "Certificate", runtime)["spec"]
        leaf = cert_manager.issued(spec["commonName"], tuple(filter(None, spec["dnsNames"])), now, ca)
        kcp |= {f"kubeconfig-{runtime}": {"config": kubeconfig.encode()}, spec["secretName"]: _tls(leaf, ca)}
        found[f"skr-{number}"] = {**pull, "skr-webhook-tls": _tls(leaf, ca)}
    return found


async def restore_cluster(client: Client, cluster: str, contents: Contents, registry: str) -> None:
    """Create all objects of a cluster (kcp, skr-1, skr-2). `registry` is where modules are."""
    documents = recorded(cluster)
    crds = [each for each in documents if each["kind"] == "CustomResourceDefinition"]
    others = sorted((each for each in documents if each not in crds), key=_rank)
    await restore(client, crds)
    for each in others:
        if each["apiVersion"].partition("/")[0].endswith(FOREIGN_GROUPS):
            await surroundings.apply(client, _crd_for(each), "kustomize")

    async def are_served() -> bool:
        return all([await surroundings.is_served(client, each) for each in others])

    await eventually(are_served, what=f"the kinds of {cluster} are served")
    ca = contents["skr-webhook-tls" if cluster != "kcp" else cert_manager.CA]["ca.crt"]
    replaced = {left_out("ca.crt"): base64.b64encode(ca).decode(), REGISTRY: registry}
    await restore(client, [_filled(each, contents) for each in others], replaced)


def _filled(document: Document, contents: Contents) -> Document:
    if document["kind"] != "Secret":
        return document
    held = contents[document["metadata"]["name"]]
    return {**document, "data": {key: base64.b64encode(held[key]).decode() for key in document["data"]}}


def _tls(pair: KeyPair, ca: KeyPair) -> dict[str, bytes]:
    return {"tls.crt": pair.certificate_pem, "tls.key": pair.key_pem, "ca.crt": ca.certificate_pem}


def _rank(document: Document) -> int:
    return FIRST_KINDS.index(document["kind"]) if document["kind"] in FIRST_KINDS else len(FIRST_KINDS)


def _crd_for(document: Document) -> Document:
    """Return a CRD for the kind of an object, with any content."""
    group, _, version = document["apiVersion"].partition("/")
    kind = document["kind"]
    singular = kind.lower()
    written = {each["apiVersion"].partition("/")[2] for each in document["metadata"].get("managedFields") or ()}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    spec = {
        "group": group,
        "scope": "Namespaced",
        "names": {"kind": kind, "listKind": f"{kind}List", "plural": f"{singular}s", "singular": singular},
        "versions": [
            {"name": each, "served": True, "storage": each == version, "subresources": {"status": {}}, "schema": schema}
            for each in sorted(written | {version})
        ],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{singular}s.{group}"},
        "spec": spec,
    }
