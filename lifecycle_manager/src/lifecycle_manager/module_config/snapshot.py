"""Gathers what the rules of a module's configuration decide on: the Module CRs as the SKR holds them now."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kube_runtime import Client, KindUnknown, NotFound
from lifecycle_manager.module_catalog.module_kinds import ModuleCrKind
from lifecycle_manager.skr import ObjectReference
from lifecycle_manager_api import Kyma, ModuleConfig, ModuleTemplate, State

JsonObject = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read from the SKR: `found` by reference, None for one that is not there.

    `default` is the Module CR that a user meets first. `complete` tells whether every Module CR was read, or only those
    that were asked for.
    """

    default: ObjectReference | None
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


@dataclass(frozen=True, slots=True)
class Wanted:
    """A module is to have a configuration, by the kinds that this template says."""

    template: ModuleTemplate


def decide(kyma: Kyma | None, module: str, template: ModuleTemplate | None) -> Wanted | Undecided | None:
    """Return whether a module is to have a configuration: None where it is to have none.

    It has one while the Kyma's status names the module, as it does until what was installed of it has gone, and the
    template enables it. A Kyma without a state (just
    created, or restored without its status) and a module whose template can't be found decide nothing: a configuration
    is only ever deleted on positive knowledge.
    """
    if kyma is None:
        return None
    if kyma.status.state is State.EMPTY:
        return Undecided()
    if not any(status.name == module for status in kyma.status.modules):
        return None
    if template is None:
        return Undecided()
    return Wanted(template) if template.spec.enable_module_config else None


async def read_all(skr: Client, kinds: Sequence[ModuleCrKind]) -> Reading:
    """Read every Module CR of some kinds, of which the SKR need not know all (yet). Raises KubeError."""
    found: dict[ObjectReference, JsonObject | None] = {}
    for kind in kinds:
        try:
            resource = await skr.mapper.resource(kind.api_version, kind.kind)
        except KindUnknown:
            continue  # no CRD in the SKR, so no Module CR either
        listed = await skr.list(resource)
        found |= {_reference(kind, item): item for item in listed.items}
    return Reading(_default_of(kinds), found, complete=True)


async def read_some(skr: Client, kinds: Sequence[ModuleCrKind], references: Iterable[ObjectReference]) -> Reading:
    """Read just the Module CRs that are asked for, each from the API server and not from a cache. Raises KubeError."""
    found: dict[ObjectReference, JsonObject | None] = {}
    by_kind = {(kind.group, kind.kind): kind for kind in kinds}
    for reference in references:
        kind = by_kind.get((reference.group, reference.kind))
        found[reference] = None if kind is None else await _read(skr, kind, reference)
    return Reading(_default_of(kinds), found, complete=False)


async def _read(skr: Client, kind: ModuleCrKind, reference: ObjectReference) -> JsonObject | None:
    try:
        resource = await skr.mapper.resource(kind.api_version, kind.kind)
        return await skr.get(resource, reference.name, reference.namespace or None)
    except (NotFound, KindUnknown):
        return None


def _default_of(kinds: Sequence[ModuleCrKind]) -> ObjectReference | None:
    return kinds[0].default if kinds else None


def _reference(kind: ModuleCrKind, document: JsonObject) -> ObjectReference:
    metadata = document["metadata"]
    return kind.reference(metadata.get("namespace", ""), metadata["name"])
