"""Carries out the steps for the status of a Module CR, in its SKR. Every step may be repeated."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import structlog

from kube_runtime import (
    ApiError,
    BadRequest,
    Client,
    Conflict,
    EventRecorder,
    Forbidden,
    Invalid,
    JsonLimits,
    JsonObject,
    KindUnknown,
    NotFound,
    Resource,
    ResponseInvalid,
)
from lifecycle_manager.contract.owned_fields import MODULE_CR_STATUS_MANAGER, Fields, only_owned
from lifecycle_manager.contract.resources import MODULE_CONFIGS
from lifecycle_manager.module_cr_status.plan import ReadModuleCr, RecordEvent, Step, WriteStatus
from lifecycle_manager.module_cr_status.schema import StatusSchemas
from lifecycle_manager.module_cr_status.snapshot import Snapshot
from lifecycle_manager.module_cr_status.status import FIELDS_REFUSED, NOT_WRITTEN, Event, event_of
from lifecycle_manager.object_set.borrowing import LazySkrClient
from lifecycle_manager_api import ModuleConfig, ObjectReference

log = structlog.get_logger("module_cr_status")

MODULE_CR = JsonLimits(max_bytes=4 * 1024 * 1024, max_nodes=1_600_000, max_depth=None)
MAX_STATUS_BYTES = 64 * 1024
"""What is decoded of a status and of its field owners: several times what Lifecycle Manager writes."""
FIELD_MANAGER_CONFLICT = "FieldManagerConflict"


class _Managed(msgspec.Struct, rename="camel"):
    manager: str = ""
    subresource: str = ""
    fields: msgspec.Raw = msgspec.field(name="fieldsV1", default=msgspec.Raw(b"{}"))

    @property
    def is_ours(self) -> bool:
        is_small = len(bytes(self.fields)) <= MAX_STATUS_BYTES
        return is_small and (self.manager, self.subresource) == (MODULE_CR_STATUS_MANAGER, "status")


class _Metadata(msgspec.Struct, rename="camel"):
    uid: str = ""
    managed_fields: list[_Managed] = []


class _ModuleCr(msgspec.Struct, frozen=True):
    """What is read of a Module CR. Users decide how large the rest is, so it is not decoded."""

    metadata: _Metadata
    status: dict[str, msgspec.Raw] | None = None

    def written(self) -> dict[str, Any]:
        """Return the fields of the status that Lifecycle Manager wrote. Raises msgspec.DecodeError, RecursionError."""
        ours = (each for each in self.metadata.managed_fields if each.is_ours)
        owned = next((_owned(msgspec.json.decode(each.fields)) for each in ours), {})
        named = {name: raw for name, raw in (self.status or {}).items() if f"f:{name}" in owned}
        small = {name: raw for name, raw in named.items() if len(bytes(raw)) <= MAX_STATUS_BYTES}
        return only_owned({name: msgspec.json.decode(raw) for name, raw in small.items()}, owned)


def _owned(fields: Any) -> Fields:
    """Return the fields of the status in a record of field owners."""
    found = fields.get("f:status") if isinstance(fields, dict) else None
    return found if isinstance(found, dict) else {}


@dataclass(eq=False, slots=True)
class Memory:
    """What is remembered of the Module CR with a uid; see `snapshot`."""

    uid: str = ""
    written: Mapping[str, Any] | None = None
    unsettled_since: float | None = None
    last_event: Event | None = None
    last_event_at: float = 0.0
    refused: Mapping[str, Any] | None = None
    module_status_refused: Mapping[str, Any] | None = None
    is_left_alone: bool = False


@dataclass(eq=False, slots=True)
class ModuleCrState:
    """The state of a key."""

    memory: Memory = field(default_factory=Memory)


@dataclass(eq=False)
class Steps:
    """The steps of one reconcile."""

    config: ModuleConfig
    memory: Memory
    schemas: StatusSchemas
    events: EventRecorder
    skr: LazySkrClient = field(repr=False)

    async def apply(self, seen: Snapshot, step: Step) -> Snapshot:
        """Carry a step out and return the snapshot with its outcome. Raises KubeError, SkrAccessError."""
        reference = seen.reference
        if reference is None:
            return seen
        try:
            client = await self.skr.client()
            resource = await client.mapper.resource(reference.api_version, reference.kind)
            match step:
                case ReadModuleCr():
                    return await self._read(seen, reference, resource, client)
                case WriteStatus():
                    return await self._write(seen, step, reference, resource, client)
                case RecordEvent(event):
                    return await self._say(seen, event, reference, resource, client)
                case _:
                    raise TypeError(step)
        except (NotFound, KindUnknown):
            self.memory.written = None
            return replace(seen, is_gone=True)

    async def _read(
        self, seen: Snapshot, reference: ObjectReference, resource: Resource[JsonObject], client: Client
    ) -> Snapshot:
        kyma = self.config.spec.kyma
        known = self.schemas.known(kyma, resource.api_version, resource.kind)
        schema = known or await self.schemas.read(kyma, resource, client)
        if self.memory.written is not None:
            return replace(seen, schema=schema)
        namespace = reference.namespace or None
        try:
            raw = await client.get_undecoded(resource, reference.name, namespace, limits=MODULE_CR)
            found = msgspec.json.decode(raw, type=_ModuleCr)
            written = found.written()
        except (ResponseInvalid, msgspec.DecodeError, RecursionError):
            return replace(seen, is_gone=True)  # as module_config says: it can't be read
        if found.metadata.uid != reference.uid:
            return replace(seen, is_gone=True)  # another object, which gets a new reference
        self.memory.written = written
        if seen.verdict.is_settled and not schema.has("state") and not schema.has("conditions"):
            # An earlier process has said this: there is no status to read it from.
            self.memory.last_event, self.memory.last_event_at = event_of(seen.verdict), seen.seconds
        return replace(
            seen,
            schema=schema,
            written=written,
            last_event=self.memory.last_event,
            last_event_at=self.memory.last_event_at,
        )

    async def _write(
        self,
        seen: Snapshot,
        step: WriteStatus,
        reference: ObjectReference,
        resource: Resource[JsonObject],
        client: Client,
    ) -> Snapshot:
        self.memory.written = None  # not known any more, until there is an answer
        try:
            await self._apply(step.fields, reference, resource, client)
        except Conflict as error:
            if not any(each.reason == FIELD_MANAGER_CONFLICT for each in error.causes):
                return replace(seen, is_gone=True)  # another object, which gets a new reference
            log.info(
                "status of a module cr is owned by another field manager", **self._named(reference), error=str(error)
            )
            if seen.written:
                await self._apply({}, reference, resource, client)  # what is left of an earlier status would be stale
            self.memory.is_left_alone, self.memory.written = True, {}
            return replace(seen, is_left_alone=True)
        except ApiError as error:
            if not _is_refusal(error):
                raise
            return self._refused(seen, step, reference, resource, error)
        self.memory.written, self.memory.refused = step.fields, None
        seen = replace(seen, written=step.fields, refused=None)
        return await self._say(seen, step.event, reference, resource, client) if step.event is not None else seen

    async def _apply(
        self, fields: Mapping[str, Any], reference: ObjectReference, resource: Resource[JsonObject], client: Client
    ) -> None:
        metadata = {"name": reference.name, "uid": reference.uid}
        if reference.namespace:
            metadata["namespace"] = reference.namespace
        document: dict[str, Any] = {"metadata": metadata} | ({"status": dict(fields)} if fields else {})
        await client.apply_undecoded(
            resource,
            reference.name,
            document,
            reference.namespace or None,
            field_manager=MODULE_CR_STATUS_MANAGER,
            force=False,
            subresource="status",
        )

    def _refused(
        self,
        seen: Snapshot,
        step: WriteStatus,
        reference: ObjectReference,
        resource: Resource[JsonObject],
        error: ApiError,
    ) -> Snapshot:
        """Go on without the fields of the Module Manager, or without any; it is reported in KCP."""
        if isinstance(error, Invalid) and any(each.field == "metadata.uid" for each in error.causes):
            return replace(seen, is_gone=True)  # another object, which gets a new reference
        self.schemas.forget(self.config.spec.kyma, resource)
        with_module_status = bool(seen.verdict.status) and not isinstance(error, Forbidden)
        reason = FIELDS_REFUSED if with_module_status and not seen.module_status_refused else NOT_WRITTEN
        log.warning("status of a module cr is refused", **self._named(reference), error=str(error))
        self.events.record(MODULE_CONFIGS, self.config, reason, str(error), type="Warning", action="WriteStatus")
        self.memory.written = seen.written
        if reason == FIELDS_REFUSED:
            self.memory.module_status_refused = seen.verdict.status
            return replace(seen, module_status_refused=True)
        self.memory.refused = step.fields
        return replace(seen, refused=step.fields)

    async def _say(
        self,
        seen: Snapshot,
        event: Event,
        reference: ObjectReference,
        resource: Resource[JsonObject],
        client: Client,
    ) -> Snapshot:
        item = {
            "metadata": {
                "name": reference.name,
                "namespace": reference.namespace,
                "uid": reference.uid,
                "resourceVersion": reference.resource_version,
            }
        }
        await self.events.write_to(
            client, resource, item, event.reason, event.note, type=event.type, action="Synchronize"
        )
        self.memory.last_event, self.memory.last_event_at = event, seen.seconds
        return replace(seen, last_event=event, last_event_at=seen.seconds)

    def _named(self, reference: ObjectReference) -> dict[str, str]:
        place = f"{reference.namespace}/{reference.name}".lstrip("/")
        return {"kyma": self.config.spec.kyma, "module": self.config.spec.module, reference.kind: place}


def _is_refusal(error: ApiError) -> bool:
    """Tell whether the API server will refuse the same fields again.

    A field that the schema does not have is an internal error, with a message of server-side apply.
    """
    return isinstance(error, Forbidden | Invalid | BadRequest) or "field not declared in schema" in error.message
