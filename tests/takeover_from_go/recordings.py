"""What the Lifecycle Manager in Go left behind, as `recorder` wrote it to files, and how clusters get it again.

An object has its content, its status, and the record of who wrote which field. Not restored are identities, times and
the contents of Secrets.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kube_runtime import AlreadyExists, Client, load_yaml

Document = dict[str, Any]
FOLDER = Path(__file__).parent / "recordings" / "two_clusters"
LEASE_FILE = FOLDER.parent / "leader" / "Lease.yaml"
FIRST = "6c3ee92f-0f51-4b0a-a1c2-5a58cbbd2f31"
"""The Kyma whose modules are all Ready. Of the other one, modules are unmanaged, blocked and being deleted."""
REGISTRY = "modules.example.com"
"""What stands for the address from which modules are pulled."""
FOREIGN_GROUPS = ("cert-manager.io", "istio.io", "x-k8s.io")
"""Groups whose CRDs are somebody else's, and long: they are not recorded."""
OF_THE_SERVER = frozenset(
    {
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "generation",
        "managedFields",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    }
)


def recorded(cluster: str, *kinds: str, belonging_to: str = "") -> list[Document]:
    """Return the objects of a cluster (kcp, skr-1, skr-2) of these kinds, in the order of the kinds, or all.

    What both user clusters have alike is in the folder skr.
    """
    folders = [FOLDER / each for each in (cluster, cluster.partition("-")[0])]
    found = ({file.name: file for each in folders for file in each.glob(f"{kind}__*.yaml")} for kind in kinds or ("*",))
    return [_read(files[name]) for files in found for name in sorted(files) if belonging_to in files[name].stem]


def the(cluster: str, kind: str, name: str) -> Document:
    """Return the object of a kind whose name has this text in it."""
    (found,) = (each for each in recorded(cluster, kind) if name in each["metadata"]["name"])
    return found


def the_lease() -> Document:
    """Return the Lease of a Go version that leads."""
    return _read(LEASE_FILE)


async def restore(client: Client, documents: Iterable[Document], replaced: Mapping[str, str] | None = None) -> None:
    """Create objects as they were recorded, owners before what they own, with some texts replaced."""
    texts = dict(replaced or {})
    for each in documents:
        document = _with(each, texts)
        resource = await client.mapper.resource(document["apiVersion"], document["kind"])
        metadata = document["metadata"]
        name, namespace = metadata["name"], metadata.get("namespace")
        content = content_of(document)
        try:
            created = await client.create(resource, content, namespace, field_manager="test")
        except AlreadyExists:
            created = await client.merge_patch(resource, name, content, namespace, field_manager="test")
        texts[metadata["uid"]] = created["metadata"]["uid"]
        if "status" in document:
            status = {"status": document["status"]}
            await client.merge_patch(resource, name, status, namespace, field_manager="test", subresource="status")
        written_by = {"metadata": {"managedFields": _with(metadata["managedFields"], texts)}}
        await client.merge_patch(resource, name, written_by, namespace, field_manager="test")
        if "deletionTimestamp" in metadata:
            await client.delete(resource, name, namespace)


def content_of(document: Document) -> Document:
    """Return what somebody writes of an object, without its status and what the API server adds."""
    content = {key: value for key, value in document.items() if key != "status"}
    return {
        **content,
        "metadata": {key: each for key, each in document["metadata"].items() if key not in OF_THE_SERVER},
    }


def left_out(key: str) -> str:
    """Return what stands for a content that is not recorded."""
    return f"<{key}, left out>"


def _read(file: Path) -> Document:
    document: Document = load_yaml(file.read_text())
    return document


def _with(value: Any, texts: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {_with(key, texts): _with(each, texts) for key, each in value.items()}
    if isinstance(value, list):
        return [_with(each, texts) for each in value]
    if isinstance(value, str):
        for text, replacement in texts.items():
            value = value.replace(text, replacement)
    return value
