"""What the plan of a module's configuration is decided on: the Module CRs in the SKR, and the ModuleConfigs in KCP."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kube_runtime import Client, KindUnknown, NotFound
from lifecycle_manager.module_catalog.module_kinds import ModuleCrKind
from lifecycle_manager.module_config.status import SyncedCondition
from lifecycle_manager.signals import ObjectReference
from lifecycle_manager_api import ModuleConfig

JsonObject = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read from the SKR: `found` by reference, None for an object that does not exist.

    `default` is the default Module CR. `complete` tells whether every Module CR was read, or only some.
    """

    default: ObjectReference | None
    found: Mapping[ObjectReference, JsonObject | None]
    complete: bool


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The configuration of one module of a Kyma.

    - `existing`: its ModuleConfigs in KCP
    - `taken`: names that ModuleConfigs of other modules or Kymas have, of those that this module would use
    - `reading`: its Module CRs in the SKR; None where the module has no configuration, or the SKR can't be read
    - `unreadable`: the condition that says why nothing could be read
    """

    kyma: str
    module: str
    namespace: str
    existing: tuple[ModuleConfig, ...]
    reading: Reading | None
    unreadable: SyncedCondition | None = None
    taken: frozenset[str] = frozenset()


async def read_all(skr: Client, kinds: Sequence[ModuleCrKind]) -> Reading:
    """Read every Module CR of some kinds; the SKR need not know all of them (yet). Raises KubeError."""
    found: dict[ObjectReference, JsonObject | None] = {}
    for kind in kinds:
        with suppress(KindUnknown):  # without its CRD in the SKR there are no Module CRs
            for item in (await skr.list(await skr.mapper.resource(kind.api_version, kind.kind))).items:
                metadata = item["metadata"]
                found[kind.reference(metadata.get("namespace", ""), metadata["name"])] = item
    return Reading(_default_of(kinds), found, complete=True)


async def read_some(skr: Client, kinds: Sequence[ModuleCrKind], references: Iterable[ObjectReference]) -> Reading:
    """Read only some Module CRs, each with a request of its own. Raises KubeError."""
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
