"""Carries out the steps for the status of a Module CR, in its SKR. Every step may be repeated."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, assert_never

import msgspec
import structlog

from kube_runtime import (
    UNDECODABLE,
    ApiError,
    BadRequest,
    Client,
    Conflict,
    EventRecorder,
    Forbidden,
    Informer,
    Invalid,
    JsonObject,
    KindUnknown,
    ObjectKey,
    Resource,
    ResponseInvalid,
    Result,
)
from lifecycle_manager.contract.owned_fields import MODULE_CR_STATUS_MANAGER
from lifecycle_manager.contract.resources import MODULE_CONFIGS
from lifecycle_manager.module_cr_status.module_cr import MODULE_CR, ModuleCrHead
from lifecycle_manager.module_cr_status.plan import (
    ModuleCrDone,
    ModuleCrStep,
    ReadModuleCr,
    RecordEvent,
    WriteStatus,
)
from lifecycle_manager.module_cr_status.schema import StatusSchemas
from lifecycle_manager.module_cr_status.snapshot import ModuleCrRequest, ModuleCrSnapshot, StatusMemory
from lifecycle_manager.module_cr_status.status import FIELDS_REFUSED, NOT_WRITTEN, ModuleCrEvent, event_of
from lifecycle_manager.skr import Connections, failure_of
from lifecycle_manager_api import ModuleConfig, ResourceReference

log = structlog.get_logger("module_cr_status")

FIELD_MANAGER_CONFLICT = "FieldManagerConflict"


@dataclass(frozen=True, eq=False, slots=True)
class InSkr:
    """The Module CR in its SKR, and what is remembered of it."""

    client: Client
    resource: Resource[JsonObject]
    reference: ResourceReference
    memory: StatusMemory

    @property
    def namespace(self) -> str | None:
        """Its namespace, None where its kind has none."""
        return self.reference.namespace or None

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
            self.namespace,
            field_manager=MODULE_CR_STATUS_MANAGER,
            force=False,
            subresource="status",
        )


@dataclass(frozen=True, eq=False)
class ModuleCrActions:
    """Reads and writes the status of Module CRs, and records Events."""

    connections: Connections
    schemas: StatusSchemas
    events: EventRecorder
    configs: Informer[ModuleConfig]

    async def apply(self, request: ModuleCrRequest, seen: ModuleCrSnapshot, step: ModuleCrStep) -> ModuleCrSnapshot:
        """Carry a step out. Raises KubeError, SkrAccessError."""
        reference, memory = seen.reference, request.state.memory
        if reference is None:
            return seen
        client = await request.shared("skr", lambda: self.connections.to(seen.config.spec.kyma))
        resource = await client.mapper.served(reference.api_version, reference.kind)
        if resource is None:
            raise KindUnknown(reference.api_version, reference.kind)
        module_cr = InSkr(client, resource, reference, memory)
        match step:
            case ReadModuleCr():
                return await self._read(seen, module_cr)
            case WriteStatus():
                return await self._write(seen, step, module_cr)
            case RecordEvent(event):
                return await self._record(seen, event, module_cr)
            case _:
                assert_never(step)

    async def finish(self, request: ModuleCrRequest, _: ModuleCrSnapshot, end: ModuleCrDone) -> Result:
        """Forget what is gone, and return when to reconcile again."""
        if end.forgets:
            request.state.memory.written = None
        if end.error is None and self.configs.get(request.key) is None:
            request.state.config = None
            return Result()
        return Result(requeue_after=end.requeue_after)

    async def report(self, key: ObjectKey, error: Exception) -> None:
        config = self.configs.get(key)
        if config is not None:
            note = failure_of(error).message
            self.events.record(MODULE_CONFIGS, config, NOT_WRITTEN, note, type="Warning", action="WriteStatus")

    async def _read(self, seen: ModuleCrSnapshot, module_cr: InSkr) -> ModuleCrSnapshot:
        kyma, memory, resource = seen.config.spec.kyma, module_cr.memory, module_cr.resource
        schema = self.schemas.known(kyma, resource.api_version, resource.kind)
        schema = schema or await self.schemas.read(kyma, resource, module_cr.client)
        if memory.written is not None and not seen.is_released:
            return replace(seen, schema=schema)
        try:
            raw = await module_cr.client.get_undecoded(
                resource, module_cr.reference.name, module_cr.namespace, limits=MODULE_CR
            )
            found = msgspec.json.decode(raw, type=ModuleCrHead)
            written = found.written()
        except (ResponseInvalid, *UNDECODABLE):
            return replace(seen, is_gone=True)  # as module_config says: it can't be read
        if found.metadata.uid != module_cr.reference.uid:
            return replace(seen, is_gone=True)  # another object, which gets a new reference
        memory.written = written
        if seen.verdict.is_settled and not schema.has("state") and not schema.has("conditions"):
            # An earlier process has said this: there is no status to read it from.
            memory.last_event, memory.last_event_at = event_of(seen.verdict), seen.seconds
        last, at = memory.last_event, memory.last_event_at
        is_terminating = found.metadata.deletion_timestamp is not None
        return replace(
            seen,
            schema=schema,
            written=written,
            last_event=last,
            last_event_at=at,
            is_terminating=is_terminating,
        )

    async def _write(self, seen: ModuleCrSnapshot, step: WriteStatus, module_cr: InSkr) -> ModuleCrSnapshot:
        memory = module_cr.memory
        memory.written = None  # not known any more, until there is an answer
        try:
            await module_cr.apply_status(step.fields)
        except Conflict as error:
            if not any(each.reason == FIELD_MANAGER_CONFLICT for each in error.causes):
                return replace(seen, is_gone=True)  # another object, which gets a new reference
            log.info("status of a module cr is owned by another field manager", **_named(seen), error=str(error))
            if seen.written:
                await module_cr.apply_status({})  # what is left of an earlier status would be stale
            memory.is_left_alone, memory.written = True, {}
            return replace(seen, is_left_alone=True)
        except ApiError as error:
            if not _is_refusal(error):
                raise
            return self._refused(seen, step, module_cr, error)
        memory.written, memory.refused = step.fields, None
        seen = replace(seen, written=step.fields, refused=None)
        return await self._record(seen, step.event, module_cr) if step.event is not None else seen

    def _refused(
        self, seen: ModuleCrSnapshot, step: WriteStatus, module_cr: InSkr, error: ApiError
    ) -> ModuleCrSnapshot:
        """Go on without the fields of the Module Manager, or without any; it is reported in KCP."""
        if isinstance(error, Invalid) and any(each.field == "metadata.uid" for each in error.causes):
            return replace(seen, is_gone=True)  # another object, which gets a new reference
        memory = module_cr.memory
        self.schemas.forget(seen.config.spec.kyma, module_cr.resource)
        with_module_status = bool(seen.verdict.status) and not isinstance(error, Forbidden)
        reason = FIELDS_REFUSED if with_module_status and not seen.module_status_refused else NOT_WRITTEN
        log.warning("status of a module cr is refused", **_named(seen), error=str(error))
        self.events.record(MODULE_CONFIGS, seen.config, reason, str(error), type="Warning", action="WriteStatus")
        memory.written = seen.written
        if reason == FIELDS_REFUSED:
            memory.module_status_refused = seen.verdict.status
            return replace(seen, module_status_refused=True)
        memory.refused, memory.refused_at = step.fields, seen.seconds
        return replace(seen, refused=step.fields)

    async def _record(self, seen: ModuleCrSnapshot, event: ModuleCrEvent, module_cr: InSkr) -> ModuleCrSnapshot:
        reference = module_cr.reference
        item = {
            "metadata": {
                "name": reference.name,
                "namespace": reference.namespace,
                "uid": reference.uid,
                "resourceVersion": reference.resource_version,
            }
        }
        await self.events.write_to(
            module_cr.client,
            module_cr.resource,
            item,
            event.reason,
            event.note,
            type=event.type,
            action="Synchronize",
        )
        module_cr.memory.last_event, module_cr.memory.last_event_at = event, seen.seconds
        return replace(seen, last_event=event, last_event_at=seen.seconds)


def _named(seen: ModuleCrSnapshot) -> dict[str, str]:
    spec, reference = seen.config.spec, seen.reference
    place = {reference.kind: f"{reference.namespace}/{reference.name}".lstrip("/")} if reference is not None else {}
    return {"kyma": spec.kyma, "module": spec.module} | place


def _is_refusal(error: ApiError) -> bool:
    """Tell whether the API server will refuse the same fields again."""
    return isinstance(error, Forbidden | Invalid | BadRequest)
