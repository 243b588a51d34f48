"""Which fields the status of a kind has, by its CRD in the SKR. One read for a kind, kept for a while."""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kube_runtime import (
    UNDECODABLE,
    Client,
    Clock,
    Forbidden,
    JsonLimits,
    JsonObject,
    NotFound,
    Resource,
    ResponseInvalid,
)
from lifecycle_manager.contract.resources import CUSTOM_RESOURCE_DEFINITIONS

CRD = JsonLimits(max_bytes=4 * 1024 * 1024, max_nodes=400_000)
MAX_KINDS = 2000
MAX_NAMES, MAX_CHARACTERS = 500, 16 * 1024
"""Of the fields of a status: users of a cluster may have a CRD of megabytes, which would be remembered."""
KEPT_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class StatusSchema:
    """The fields of a status, those of its conditions, and the values of its state; None where anything fits."""

    fields: frozenset[str] | None = None
    condition_fields: frozenset[str] | None = None
    states: frozenset[str] | None = None

    def has(self, name: str) -> bool:
        return self.fields is None or name in self.fields


ANYTHING = StatusSchema()
NO_STATUS = StatusSchema(fields=frozenset())


class _Value(msgspec.Struct, frozen=True):
    properties: dict[str, "_Value"] = {}
    items: "_Value | None" = None
    enum: list[Any] | None = None
    keeps_unknown: bool = msgspec.field(default=False, name="x-kubernetes-preserve-unknown-fields")

    @property
    def names(self) -> frozenset[str] | None:
        """The names of its fields; None where it may have any."""
        return None if self.keeps_unknown else _kept(self.properties)


class _Parts(msgspec.Struct, frozen=True):
    status: _Value | None = None


class _Root(msgspec.Struct, frozen=True):
    properties: _Parts = _Parts()
    keeps_unknown: bool = msgspec.field(default=False, name="x-kubernetes-preserve-unknown-fields")


class _Schema(msgspec.Struct, frozen=True):
    root: _Root = msgspec.field(default=_Root(), name="openAPIV3Schema")


class _Version(msgspec.Struct, frozen=True):
    name: str
    schema: _Schema = _Schema()
    subresources: dict[str, Any] = {}


class _Spec(msgspec.Struct, frozen=True):
    versions: list[_Version] = []


class _Crd(msgspec.Struct, frozen=True):
    spec: _Spec = _Spec()


def schema_in(crd: bytes, version: str) -> StatusSchema:
    """Return the fields of the status in a version of a CRD. Raises msgspec.DecodeError."""
    found = next((each for each in msgspec.json.decode(crd, type=_Crd).spec.versions if each.name == version), None)
    if found is None or "status" not in found.subresources:
        return NO_STATUS
    root = found.schema.root
    status = root.properties.status
    if status is None:
        return ANYTHING if root.keeps_unknown else NO_STATUS
    conditions, state = status.properties.get("conditions"), status.properties.get("state")
    item = conditions.items if conditions is not None else None
    return StatusSchema(
        status.names,
        item.names if item is not None else None,
        _kept(map(str, state.enum)) if state is not None and state.enum is not None else None,
    )


def _kept(names: Iterable[str]) -> frozenset[str] | None:
    """Return names to be remembered; None, as where anything fits, for more than any kind has."""
    found = frozenset(names)
    return found if len(found) <= MAX_NAMES and sum(map(len, found)) <= MAX_CHARACTERS else None


@dataclass(eq=False)
class StatusSchemas:
    """The schemas that were read, by cluster and kind."""

    clock: Clock
    _known: OrderedDict[tuple[str, str, str], tuple[float, StatusSchema]] = field(default_factory=OrderedDict)

    def known(self, kyma: str, api_version: str, kind: str) -> StatusSchema | None:
        """Return the schema of a kind in the cluster of a Kyma if it was read lately."""
        read_at, schema = self._known.get((kyma, api_version, kind), (0.0, None))
        return schema if self.clock.monotonic() - read_at < KEPT_SECONDS else None

    async def read(self, kyma: str, resource: Resource[JsonObject], skr: Client) -> StatusSchema:
        """Read the schema of a kind in the cluster of a Kyma. Raises KubeError.

        Where the CRD can't be read, anything may fit: the API server refuses what does not.
        """
        try:
            crd = await skr.get_undecoded(CUSTOM_RESOURCE_DEFINITIONS, resource.plural_name, limits=CRD)
            found = schema_in(crd, resource.version)
        except (Forbidden, NotFound, ResponseInvalid, *UNDECODABLE):
            found = ANYTHING
        key = (kyma, resource.api_version, resource.kind)
        self._known[key] = (self.clock.monotonic(), found)
        self._known.move_to_end(key)
        while len(self._known) > MAX_KINDS:
            self._known.popitem(last=False)
        return found

    def forget(self, kyma: str, resource: Resource[JsonObject]) -> None:
        """Read a CRD again when it is next needed."""
        self._known.pop((kyma, resource.api_version, resource.kind), None)
