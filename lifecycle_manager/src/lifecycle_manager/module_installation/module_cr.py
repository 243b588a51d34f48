"""The default Module CR of a module: created once with the module, then the user's own."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from kube_runtime import InventoryEntry, KubernetesObject, Resource
from kube_runtime.apply.documents import OF_THE_SERVER
from lifecycle_manager.object_set.protected import is_protected
from lifecycle_manager_api import Manifest, boolean, names, raw_object
from lifecycle_manager_api.known_kinds import kind_refusal

_OF_ITS_CLUSTER = OF_THE_SERVER | {"ownerReferences"}


@dataclass(frozen=True, slots=True)
class DefaultCr:
    """The default Module CR as it is created. Its namespace is empty where it is said to have none.

    Whether its kind has namespaces is stated by the SKR alone: `default_namespace` is for one that names none.
    """

    api_version: str
    kind: str
    namespace: str
    name: str
    document: dict[str, Any]
    default_namespace: str = names.SKR_NAMESPACE

    def document_in(self, namespace: str) -> dict[str, Any]:
        """Return the document for a namespace, or for none."""
        metadata = {key: value for key, value in self.document["metadata"].items() if key != "namespace"}
        return {**self.document, "metadata": metadata | ({"namespace": namespace} if namespace else {})}

    def namespace_in(self, resource: Resource[Any]) -> str:
        """Return its namespace, as an SKR serves its kind."""
        return (self.namespace or self.default_namespace) if resource.namespaced else ""

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]

    @property
    def entry(self) -> InventoryEntry:
        return InventoryEntry(self.group, self.api_version.rpartition("/")[2], self.kind, self.namespace, self.name)

    def __str__(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {where}"


class CrView(NamedTuple):
    """The default Module CR; `live` is None where it does not exist.

    `refused` says why it could not be created or, where it was `created` before, why it can't be read.
    """

    wanted: DefaultCr
    live: Mapping[str, Any] | None
    refused: str = ""
    created: bool = False


def default_cr(manifest: Manifest, default_namespace: str = names.SKR_NAMESPACE) -> DefaultCr | None:
    """Return the default Module CR of a Manifest; None where it has none, or leaves it to the user.

    An object of Kubernetes or of the Lifecycle Manager is never one: it would be deleted with the module.
    """
    wanted = raw_object(manifest.spec.resource)
    if not wanted or manifest.spec.custom_resource_policy != "CreateAndDelete":
        return None
    api_version, kind, metadata = wanted.get("apiVersion"), wanted.get("kind"), wanted.get("metadata")
    if not isinstance(api_version, str) or not isinstance(kind, str) or kind_refusal(api_version, kind) is not None:
        return None
    given = metadata if isinstance(metadata, dict) else {}
    cluster_scoped = boolean(manifest.metadata.annotations, names.IS_CLUSTER_SCOPED)
    namespace = "" if cluster_scoped else str(given.get("namespace") or default_namespace)
    name = str(given.get("name") or "default")
    document = _document(wanted, given, name, owner_of(manifest))
    if is_protected(KubernetesObject(api_version, kind, namespace, name, document, 0)):
        return None
    return DefaultCr(api_version, kind, namespace, name, document, default_namespace)


def refused_cr(manifest: Manifest) -> str:
    """Return why the object that a Manifest has as its default Module CR is none; empty where nothing is wrong."""
    wanted = raw_object(manifest.spec.resource)
    if not wanted or manifest.spec.custom_resource_policy != "CreateAndDelete":
        return ""
    why = kind_refusal(str(wanted.get("apiVersion")), str(wanted.get("kind")))
    return f"spec.resource: {why}, and cannot be that of a Module CR" if why is not None else ""


def owner_of(manifest: Manifest) -> str:
    return f"{manifest.metadata.namespace}/{manifest.metadata.name}"


def _document(wanted: dict[str, Any], metadata: dict[str, Any], name: str, owner: str) -> dict[str, Any]:
    """Return what is created in some namespace: without what is of another cluster, with the Watcher's label.

    Its annotation names the Manifest: so it is found after another version has another default.
    """
    labels: dict[str, str] = metadata["labels"] if isinstance(metadata.get("labels"), dict) else {}
    annotations: dict[str, str] = metadata["annotations"] if isinstance(metadata.get("annotations"), dict) else {}
    kept = {key: value for key, value in metadata.items() if key not in _OF_ITS_CLUSTER and key != "namespace"}
    kept |= {"name": name, "labels": {**labels, names.MANAGED_BY: names.LIFECYCLE_MANAGER, names.WATCHED_BY: "kyma"}}
    kept["annotations"] = {**annotations, names.OWNED_BY: owner}
    return {key: value for key, value in wanted.items() if key != "status"} | {"metadata": kept}
