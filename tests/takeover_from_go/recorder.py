"""Writes what the Go version left in clusters to files: whole objects with their field managers, nothing secret.

Two runs give the same files: what each run has of its own (uids, times, addresses) is replaced by what all have in
common. Left out are the contents of Secrets, certificates, and the addresses, hosts and paths of the run.
"""

import difflib
import os
import re
import uuid
from collections.abc import Mapping
from typing import Any

from kube_runtime import Client, KindUnknown, NotFound, dump_yaml
from lifecycle_manager_api import names
from tests.kinds import CRDS
from tests.takeover_from_go.played import LONG_AGO
from tests.takeover_from_go.recordings import FOLDER as RECORDING
from tests.takeover_from_go.recordings import FOREIGN_GROUPS, REGISTRY, left_out

Document = dict[str, Any]
REQUEST = "RECORD_GO_LIFECYCLE_MANAGER"
"""The environment variable with which a run of the tests writes the recording anew."""
RESTARTED = re.compile(r"(?<=pod-restart-trigger: \")\d+")
"""The resourceVersion of the Secret for which the Go version restarts its Watcher."""
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
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


def is_requested() -> bool:
    return REQUEST in os.environ


async def recording_of(clusters: Mapping[str, Client], registry: str) -> dict[str, str]:
    """Return all objects of clusters as text, by the file of each. `registry` is the address of the run's modules."""
    found = {file_of(name, each): each for name, cluster in clusters.items() for each in await objects_of(cluster)}
    own = {each["metadata"]["uid"]: uid_in(file) for file, each in found.items()} | {registry: REGISTRY}
    return {file: anonymous(dump_yaml(lasting(each)), own) for file, each in sorted(found.items())}


def file_of(cluster: str, document: Document) -> str:
    """Return the file of an object. The CRDs of the catalog are alike in all user clusters, and have one."""
    is_alike = document["kind"] == "CustomResourceDefinition" and document["spec"]["group"] == names.GROUP
    return f"{cluster.partition('-')[0] if is_alike else cluster}/{name_of(document)}.yaml"


def uid_in(file: str) -> str:
    """Return the uid that the object of a file has in the recording."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, file))


def anonymous(text: str, own: Mapping[str, str]) -> str:
    """Return a text with what stands for texts of this run, and for all times."""
    return RESTARTED.sub("1", TIME.sub(LONG_AGO, with_texts(text, own)))


def with_texts(text: str, texts: Mapping[str, str]) -> str:
    """Return a text with some texts replaced."""
    return re.sub("|".join(map(re.escape, texts)), lambda it: texts[it[0]], text)


def write(recording: Mapping[str, str]) -> None:
    """Replace the files of the recording."""
    for former in RECORDING.glob("*/*.yaml"):
        former.unlink()
    for file, text in recording.items():
        (RECORDING / file).write_text(text)


def written() -> dict[str, str]:
    """Return the recording, by file."""
    return {str(each.relative_to(RECORDING)): each.read_text() for each in sorted(RECORDING.glob("*/*.yaml"))}


def differences(found: Mapping[str, str]) -> list[str]:
    """Return the lines in which objects differ from the recording, each after its file."""
    recorded = written()
    return [
        f"{file}: {line}"
        for file in sorted(found.keys() | recorded.keys())
        for line in difflib.unified_diff(recorded.get(file, "").split("\n"), found.get(file, "").split("\n"), n=0)
        if not line.startswith(("---", "+++", "@@"))
    ]


async def objects_of(cluster: Client) -> list[Document]:
    """Return all objects of a cluster that are not Kubernetes' own."""
    kinds = [*BUILT_IN]
    for definition in (await cluster.list(CRDS)).items:
        spec = definition["spec"]
        stored = next(each["name"] for each in spec["versions"] if each["storage"])
        kinds.append((f"{spec['group']}/{stored}", spec["names"]["kind"]))
    found: list[Document] = []
    for api_version, kind in kinds:
        try:
            resource = await cluster.mapper.resource(api_version, kind)
            items = (await cluster.list(resource)).items
        except (KindUnknown, NotFound):
            continue  # deleted meanwhile, with its objects
        found += [{"apiVersion": api_version, "kind": kind, **each} for each in items if not _is_left_out(kind, each)]
    return found


def name_of(document: Document) -> str:
    """Return the name of an object, as its file has it."""
    metadata = document["metadata"]
    return f"{document['kind']}__{metadata.get('namespace', '')}_{metadata['name'].replace(':', '_')}"


def lasting(document: Document) -> Document:
    """Return an object without what is secret, or another one in each run."""
    metadata = {**document["metadata"], "resourceVersion": "1"}
    metadata["managedFields"] = sorted(
        metadata.get("managedFields") or (),
        key=lambda it: (it["operation"], it["manager"], it.get("subresource", ""), it["apiVersion"]),
    )
    found = {**document, "metadata": metadata}
    if document["kind"] == "Secret":
        found["data"] = {key: left_out(key) for key in document["data"]}
    elif document["kind"] == "ValidatingWebhookConfiguration":
        found["webhooks"] = [
            {**each, "clientConfig": {**each["clientConfig"], "caBundle": left_out("ca.crt")}}
            for each in document["webhooks"]
        ]
    elif document["kind"] == "Kyma" and "modules" in document.get("status", {}):  # in any order
        listed = sorted(document["status"]["modules"], key=lambda it: str(it["name"]))
        found["status"] = {**document["status"], "modules": listed}
    elif document["kind"] == "Service":
        found["spec"] = {key: each for key, each in document["spec"].items() if key not in {"clusterIP", "clusterIPs"}}
    return found


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
