"""Gathers what the rules of a module's configuration decide on: the Module CRs as the SKR holds them now."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kube_runtime import Client, NotFound
from lifecycle_manager.skr import ObjectReference
from lifecycle_manager_api import Kyma, ModuleConfig, ModuleTemplate, State, names, raw_object

JsonObject = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ModuleCrKind:
    """Which kind a module is configured by, and which of its objects is the default one."""

    api_version: str
    kind: str
    default_namespace: str
    default_name: str

    @property
    def group(self) -> str:
        """The API group of the kind; empty for the core group."""
        return self.api_version.rpartition("/")[0]

    def reference(self, namespace: str, name: str) -> ObjectReference:
        """Name one object of this kind."""
        return ObjectReference(self.group, self.kind, namespace, name)


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read from the SKR: `found` by reference, None for one that is not there.

    `complete` tells whether every Module CR of the kind was read, or only those that were asked for.
    """

    kind: ModuleCrKind
    found: Mapping[ObjectReference, JsonObject | None]
    complete: bool


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that `plan` looks at. `reading` is None where the module is to have no configuration."""

    kyma: str
    module: str
    namespace: str
    existing: tuple[ModuleConfig, ...]
    reading: Reading | None
    unreadable: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Undecided:
    """It can't be told yet whether a module is to have a configuration; what is there stays as it is."""


def wanted_kind(kyma: Kyma | None, module: str, template: ModuleTemplate | None) -> ModuleCrKind | Undecided | None:
    """Return the kind of a module's configuration, or None where the module is to have none.

    It has one while the Kyma stays and asks for the module, and the template enables it and holds a default CR. A
    Kyma without a state (just created, or restored without its status) and a module whose template can't be
    found decide nothing: a configuration is only ever deleted on positive knowledge.
    """
    if kyma is None or kyma.metadata.deletion_timestamp is not None:
        return None
    if kyma.status.state is State.EMPTY:
        return Undecided()
    if not any(status.name == module for status in kyma.status.modules):
        return None
    if template is None:
        return Undecided()
    return kind_in(template) if template.spec.enable_module_config else None


def kind_in(template: ModuleTemplate) -> ModuleCrKind | None:
    """Return the kind of the default CR that a template holds, or None where it holds none."""
    data = raw_object(template.spec.data)
    if not data or not isinstance(data.get("apiVersion"), str) or not isinstance(data.get("kind"), str):
        return None
    metadata = data.get("metadata") or {}
    cluster_scoped = template.metadata.annotations.get(names.IS_CLUSTER_SCOPED) == "true"
    namespace = "" if cluster_scoped else metadata.get("namespace") or names.SKR_NAMESPACE
    return ModuleCrKind(data["apiVersion"], data["kind"], namespace, metadata.get("name") or "default")


async def read_all(skr: Client, kind: ModuleCrKind) -> Reading:
    """Read every Module CR of a kind. Raises KubeError; KindUnknown where the SKR has no such kind (yet)."""
    resource = await skr.mapper.resource(kind.api_version, kind.kind)
    listed = await skr.list(resource)
    return Reading(kind, {_reference(kind, item): item for item in listed.items}, complete=True)


async def read_some(skr: Client, kind: ModuleCrKind, references: Iterable[ObjectReference]) -> Reading:
    """Read just the Module CRs that are asked for, each from the API server and not from a cache."""
    resource = await skr.mapper.resource(kind.api_version, kind.kind)
    found: dict[ObjectReference, JsonObject | None] = {}
    for reference in references:
        try:
            module_cr = await skr.get(resource, reference.name, reference.namespace or None)
        except NotFound:
            found[reference] = None
        else:
            found[reference] = module_cr
    return Reading(kind, found, complete=False)


def _reference(kind: ModuleCrKind, document: JsonObject) -> ObjectReference:
    metadata = document["metadata"]
    return kind.reference(metadata.get("namespace", ""), metadata["name"])
