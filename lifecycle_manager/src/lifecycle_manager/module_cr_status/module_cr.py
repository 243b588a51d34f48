"""A Module CR in its SKR: the status that Lifecycle Manager wrote is read and written. Users decide about the rest."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from kube_runtime import (
    UNDECODABLE,
    Client,
    EventRecorder,
    Invalid,
    JsonLimits,
    JsonObject,
    KindUnknown,
    Resource,
    ResponseInvalid,
)
from lifecycle_manager.contract.owned_fields import MODULE_CR_STATUS_MANAGER, Fields, only_owned
from lifecycle_manager.module_cr_status.status import ModuleCrEvent
from lifecycle_manager_api import ResourceReference

MODULE_CR = JsonLimits(max_bytes=4 * 1024 * 1024, max_nodes=1_600_000, max_depth=None)
MAX_STATUS_BYTES = 64 * 1024
"""What is decoded of a status and of its field owners: several times what Lifecycle Manager writes."""


class _Managed(msgspec.Struct, rename="camel"):
    manager: str = ""
    operation: str = ""
    subresource: str = ""
    fields: msgspec.Raw = msgspec.field(name="fieldsV1", default=msgspec.Raw(b"{}"))

    @property
    def is_ours(self) -> bool:
        is_small = len(bytes(self.fields)) <= MAX_STATUS_BYTES
        ours = (MODULE_CR_STATUS_MANAGER, "Apply", "status")  # an Update only took conditions back
        return is_small and (self.manager, self.operation, self.subresource) == ours


class ModuleCrMetadata(msgspec.Struct, rename="camel"):
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    managed_fields: list[_Managed] = []


class ModuleCrHead(msgspec.Struct, frozen=True):
    """What is read of a Module CR. Users decide how large the rest is, so it is not decoded."""

    metadata: ModuleCrMetadata
    status: dict[str, msgspec.Raw] | None = None

    def written(self) -> dict[str, Any]:
        """Return the fields of the status that Lifecycle Manager wrote. Raises msgspec.DecodeError, RecursionError."""
        ours = (each for each in self.metadata.managed_fields if each.is_ours)
        owned = next((_owned(msgspec.json.decode(each.fields)) for each in ours), {})
        named = {name: raw for name, raw in (self.status or {}).items() if f"f:{name}" in owned}
        small = {name: raw for name, raw in named.items() if len(bytes(raw)) <= MAX_STATUS_BYTES}
        return only_owned({name: msgspec.json.decode(raw) for name, raw in small.items()}, owned)

    def conditions(self) -> list[Any]:
        """Return the conditions of all field managers. Raises msgspec.DecodeError, RecursionError."""
        raw = bytes((self.status or {}).get("conditions", b""))
        found = msgspec.json.decode(raw) if 0 < len(raw) <= MAX_STATUS_BYTES else None
        return found if isinstance(found, list) else []


def _owned(fields: Any) -> Fields:
    found = fields.get("f:status") if isinstance(fields, dict) else None
    return found if isinstance(found, dict) else {}


def _said(condition: Any) -> Any:
    """Return what a condition says; all of one without a reason, as others may say the same."""
    if not isinstance(condition, Mapping) or not condition.get("reason"):
        return condition
    return [condition.get(name) for name in ("type", "status", "reason", "message")]


@dataclass(frozen=True, eq=False, slots=True)
class ModuleCrInSkr:
    """One Module CR, and the resource that serves its kind now."""

    client: Client
    resource: Resource[JsonObject]
    reference: ResourceReference

    @classmethod
    async def of(cls, client: Client, reference: ResourceReference) -> "ModuleCrInSkr":
        """Raises KindUnknown where the SKR has no such kind, or KubeError."""
        resource = await client.mapper.served(reference.api_version, reference.kind)
        if resource is None:
            raise KindUnknown(reference.api_version, reference.kind)
        return cls(client, resource, reference)

    async def read(self) -> ModuleCrHead | None:
        """Return it; None where that can't be read, or is another object, which gets a new reference."""
        namespace = self.reference.namespace or None
        try:
            raw = await self.client.get_undecoded(self.resource, self.reference.name, namespace, limits=MODULE_CR)
            found = msgspec.json.decode(raw, type=ModuleCrHead)
            found.written()
            found.conditions()
        except (ResponseInvalid, *UNDECODABLE):
            return None  # as module_config says
        return found if found.metadata.uid == self.reference.uid else None

    async def apply_status(self, fields: Mapping[str, Any]) -> None:
        """Apply fields of the status, without force. Raises KubeError."""
        metadata = {"name": self.reference.name, "uid": self.reference.uid}
        if self.reference.namespace:
            metadata["namespace"] = self.reference.namespace
        document: dict[str, Any] = {"metadata": metadata} | ({"status": dict(fields)} if fields else {})
        await self.client.apply_undecoded(
            self.resource,
            self.reference.name,
            document,
            self.reference.namespace or None,
            field_manager=MODULE_CR_STATUS_MANAGER,
            force=False,
            subresource="status",
        )

    async def withdraw(self, before: Fields, wanted: Fields) -> None:
        """Remove what is left of fields that were written, but for what the kind requires. Raises KubeError.

        Operators write the conditions that they find with their own, and are the owner of both. What was written
        before a restart is known by what it says: the same as what is `wanted`, where that has a reason.
        """
        if before:
            with suppress(Invalid):
                await self.apply_status({})
        head = await self.read()
        known = (each for each in wanted.get("conditions", ()) if each.get("reason"))
        ours = [_said(each) for each in (*before.get("conditions", ()), *known)]
        conditions = head.conditions() if head is not None else []
        left = [each for each in conditions if _said(each) not in ours]
        if head is not None and left != conditions:
            metadata = {"resourceVersion": head.metadata.resource_version}
            await self.client.merge_patch(
                self.resource,
                self.reference.name,
                {"metadata": metadata, "status": {"conditions": left}},
                self.reference.namespace or None,
                field_manager=MODULE_CR_STATUS_MANAGER,
                subresource="status",
            )

    async def record(self, events: EventRecorder, event: ModuleCrEvent) -> None:
        """Write an Event about it in the SKR."""
        reference = self.reference
        metadata = {
            "name": reference.name,
            "namespace": reference.namespace,
            "uid": reference.uid,
            "resourceVersion": reference.resource_version,
        }
        await events.write_to(
            self.client,
            self.resource,
            {"metadata": metadata},
            event.reason,
            event.note,
            type=event.type,
            action="Synchronize",
        )
