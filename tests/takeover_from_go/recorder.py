"""Writes what the Go version left in clusters to files: whole objects with their field managers, nothing secret.

Left out are the contents of Secrets, certificates, and the addresses, hosts and paths of the run.
"""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kube_runtime import Client, dump_yaml, load_yaml
from tests.kinds import CRDS

Document = dict[str, Any]
REQUEST = "RECORD_GO_LIFECYCLE_MANAGER"
"""The environment variable with which a run of the tests writes the recording anew."""
RECORDING = Path(__file__).parent / "recordings" / "two_clusters"
BUILT_IN = (
    ("v1", "Namespace"),
    ("v1", "Secret"),
    ("v1", "Service"),
    ("v1", "ConfigMap"),
    ("apps/v1", "Deployment"),
    ("networking.k8s.io/v1", "NetworkPolicy"),
    ("scheduling.k8s.io/v1", "PriorityClass"),
    ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
)
SYSTEM = {
    "default",
    "kubernetes",
    "kube-node-lease",
    "kube-public",
    "kube-root-ca.crt",
    "kube-system",
    "system-cluster-critical",
    "system-node-critical",
}
FOREIGN_GROUPS = ("cert-manager.io", "istio.io", "x-k8s.io")
"""Groups whose definitions are somebody else's, and long."""


def is_requested() -> bool:
    return REQUEST in os.environ


async def record(clusters: Mapping[str, Client], folder: Path, *, hosts: Iterable[str]) -> None:
    """Write all objects of clusters into a folder each. `hosts` are names of the run."""
    for name, cluster in clusters.items():
        target = folder / name
        target.mkdir(parents=True, exist_ok=True)
        for former in target.glob("*.yaml"):
            former.unlink()
        for document in await objects_of(cluster):
            text = anonymous(dump_yaml(without_secrets(document)), hosts)
            with (target / f"{name_of(document)}.yaml").open("x") as file:  # one of another kind would be lost
                file.write(text)


def outline(folder: Path) -> dict[str, list[tuple[str, str, str]]]:
    """Return the objects of a recording, by their file, with the writers of each: what every run has in common."""
    found = {}
    for file in sorted(folder.glob("*/*.yaml")):
        managed = load_yaml(file.read_text())["metadata"].get("managedFields") or ()
        writers = {(each["manager"], each["operation"], each.get("subresource", "")) for each in managed}
        found[f"{file.parent.name}/{file.stem}"] = sorted(writers)
    return found


async def objects_of(cluster: Client) -> list[Document]:
    """Return all objects of a cluster that are not Kubernetes' own."""
    kinds = [*BUILT_IN]
    for definition in (await cluster.list(CRDS)).items:
        spec = definition["spec"]
        stored = next(each["name"] for each in spec["versions"] if each["storage"])
        kinds.append((f"{spec['group']}/{stored}", spec["names"]["kind"]))
    found: list[Document] = []
    for api_version, kind in kinds:
        resource = await cluster.mapper.resource(api_version, kind)
        items = (await cluster.list(resource)).items
        found += [{"apiVersion": api_version, "kind": kind, **each} for each in items if not _is_left_out(kind, each)]
    return found


def name_of(document: Document) -> str:
    """Return the name of an object, as its file has it."""
    metadata = document["metadata"]
    return f"{document['kind']}__{metadata.get('namespace', '')}_{metadata['name'].replace(':', '_')}"


def without_secrets(document: Document) -> Document:
    """Return an object without what is secret, or too long to be read: each replaced by a word on it."""
    if document["kind"] == "Secret":
        data = {key: f"<{len(value)} characters of base64, left out>" for key, value in document["data"].items()}
        return {**document, "data": data}
    if document["kind"] == "ValidatingWebhookConfiguration":
        webhooks: list[Document] = _replaced(document.get("webhooks") or [], "caBundle")
        return {**document, "webhooks": webhooks}
    return document


def anonymous(text: str, hosts: Iterable[str]) -> str:
    """Return a text without the addresses of the run."""
    for host in hosts:
        text = text.replace(host, "registry.example.com")
    return re.sub(r"(127\.0\.0\.1|localhost):\d+", "registry.example.com", text)


def _replaced(value: Any, key: str) -> Any:
    """Return a value with the texts of this name replaced, wherever they are."""
    if isinstance(value, list):
        return [_replaced(each, key) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: f"<{len(each)} characters of base64, left out>"
        if name == key and isinstance(each, str)
        else _replaced(each, key)
        for name, each in value.items()
    }


def _is_left_out(kind: str, live: Document) -> bool:
    """Tell whether an object is Kubernetes' own, or a definition of somebody else."""
    metadata = live["metadata"]
    if kind == "CustomResourceDefinition":
        return any(live["spec"]["group"].endswith(each) for each in FOREIGN_GROUPS)
    return (
        metadata.get("namespace", "").startswith("kube-")
        or (metadata["name"] in SYSTEM and kind != "Kyma")
        or "kubernetes.io/bootstrapping" in (metadata.get("labels") or {})
    )
