"""The controller of the status of Module CRs, one key for each ModuleConfig: its triggers, and what a reconcile does.

A status is reconciled when

- another version of the Module CR was read, or the Module Manager has answered to it
- what was made of it is applied, or has another status
- its ModuleConfig is deleted, as the last one that was read says
- its SKR answers again, or is replaced
- a change is on its way for longer than the limits in `rules`
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import msgspec
import structlog

from kube_runtime import (
    ApiError,
    BadRequest,
    Causes,
    Change,
    Clock,
    Conflict,
    Controller,
    EventRecorder,
    Forbidden,
    Informer,
    Invalid,
    KindUnknown,
    Manager,
    NotFound,
    ObjectKey,
    Priority,
    Result,
)
from kube_runtime.tracing import part
from lifecycle_manager.contract.changes import generation_changed, versions
from lifecycle_manager.contract.indexes import MODULE_CONFIGS_BY_KYMA
from lifecycle_manager.contract.resources import MODULE_CONFIGS, SYNC_RESOURCES
from lifecycle_manager.contract.signals import ClusterReachable, ClusterReplaced, SyncResourceApplied
from lifecycle_manager.contract.verdict import config_of, module_fields_of, verdict_of
from lifecycle_manager.module_cr_status import rules
from lifecycle_manager.module_cr_status.module_cr import ModuleCrInSkr
from lifecycle_manager.module_cr_status.schema import StatusSchema, StatusSchemas
from lifecycle_manager.module_cr_status.snapshot import (
    SYNC_RESOURCES_BY_CONFIG,
    ModuleCrSnapshot,
    ModuleCrState,
)
from lifecycle_manager.module_cr_status.status import FIELDS_REFUSED, NOT_WRITTEN, Fields, event_of
from lifecycle_manager.object_set.policy import Policies
from lifecycle_manager.options.configuration import ModuleCrStatusSettings
from lifecycle_manager.skr.access import SkrAccessError
from lifecycle_manager.skr.connections import Connections
from lifecycle_manager.skr.failure import failure_of
from lifecycle_manager_api import ModuleConfig, ResourceReference, SyncResource

log = structlog.get_logger("module_cr_status")

FIELD_MANAGER_CONFLICT = "FieldManagerConflict"


def setup(
    manager: Manager, connections: Connections, settings: ModuleCrStatusSettings
) -> Controller[ObjectKey, ModuleCrState]:
    """Add the controller of the status of Module CRs; its keys are those of the ModuleConfigs."""
    configs = manager.informer(MODULE_CONFIGS, namespace=None, indexes=[MODULE_CONFIGS_BY_KYMA])
    sync_resources = manager.informer(SYNC_RESOURCES, namespace=None, indexes=[SYNC_RESOURCES_BY_CONFIG])
    policies = Policies.watched_by(manager)

    def owner(key: ObjectKey) -> str:
        config = configs.get(key)
        return config.spec.kyma if config is not None else ""

    def exists(key: ObjectKey) -> bool:
        state = controller.state(key)
        return configs.get(key) is not None or (state is not None and state.config is not None)

    def of_kyma(signal: ClusterReachable | ClusterReplaced) -> Iterable[ObjectKey]:
        return map(MODULE_CONFIGS.key_of, configs.by_index(MODULE_CONFIGS_BY_KYMA, signal.kyma))

    controller: Controller[ObjectKey, ModuleCrState] = manager.controller(
        "module-cr-status",
        state=ModuleCrState,
        owner=owner,
        exists=exists,
        concurrency=settings.concurrency,
        max_per_owner=3,
        timeout_seconds=30.0,
        not_retried=(SkrAccessError,),
    )
    controller.starts_with(configs.cache.keys)
    # Not as the controller's own kind: what is known of a ModuleConfig is needed once more when it is gone.
    controller.watches(configs, to=lambda change: map(MODULE_CONFIGS.key_of, versions(change)[:1]), when=status_changed)
    controller.watches(sync_resources, to=lambda change: made_from(change.old, change.new), when=application_changed)
    controller.receives(SyncResourceApplied, to=lambda signal: made_from(signal.resource), priority=Priority.CHANGE)
    controller.receives(ClusterReachable, to=of_kyma, priority=Priority.RESYNC)
    controller.receives(ClusterReplaced, to=of_kyma, priority=Priority.RESYNC)
    reconciler = ModuleCrReconciler(
        configs, sync_resources, policies, connections, StatusSchemas(manager.clock), manager.events, manager.clock
    )
    controller.reconciles(reconciler.reconcile, unforeseen=reconciler.report)
    return controller


@dataclass(frozen=True, eq=False)
class ModuleCrReconciler:
    """Reads and writes the status of Module CRs, and records Events."""

    configs: Informer[ModuleConfig]
    sync_resources: Informer[SyncResource]
    policies: Policies
    connections: Connections
    schemas: StatusSchemas
    events: EventRecorder
    clock: Clock

    async def reconcile(self, key: ObjectKey, causes: Causes, state: ModuleCrState) -> Result:
        """Write the status of a Module CR where it says something else. Raises KubeError, SkrAccessError."""
        seen, requeue_after = self._seen(key, causes, state), None
        if seen is not None and (reference := rules.reference_of(seen)) is not None:
            try:
                requeue_after = await self._bring(seen, reference)
            except (NotFound, KindUnknown):  # there is nothing to write to
                seen.memory.written = None
            except SkrAccessError:
                if not seen.is_released:  # else its cluster may be gone
                    raise
        if self.configs.get(key) is None:
            state.config = None
            return Result()
        return Result(requeue_after)

    def _seen(self, key: ObjectKey, causes: Causes, state: ModuleCrState) -> ModuleCrSnapshot | None:
        """Return what is known of a Module CR; None where it has no ModuleConfig that counts."""
        present, now, seconds = self.configs.get(key), self.clock.now(), self.clock.monotonic()
        config = present or state.config
        if config is None or not self.policies.is_in_place(config):
            state.config = None
            return None
        state.config = msgspec.structs.replace(config, spec=msgspec.structs.replace(config.spec, resource=""))
        is_released = present is None or config.metadata.being_deleted
        if present is None and not config.metadata.being_deleted:
            deleted = msgspec.structs.replace(config.metadata, deletion_timestamp=now)
            config = msgspec.structs.replace(config, metadata=deleted)
        reference = config.spec.resource_ref
        memory = state.remembered(reference.uid if reference is not None else "", causes)
        verdict = replace(verdict_of(config, self._made_from(config, causes)), status=module_fields_of(config))
        memory.note(verdict, seconds)
        return ModuleCrSnapshot(
            config=config, verdict=verdict, memory=memory, now=now, seconds=seconds, is_released=is_released
        )

    def _made_from(self, config: ModuleConfig, causes: Causes) -> Iterable[SyncResource]:
        """Return the SyncResources of a ModuleConfig: as they are in KCP, or about to be."""
        applied = {each.resource.metadata.uid: each.resource for each in causes.of(SyncResourceApplied)}
        for each in self.sync_resources.by_index(SYNC_RESOURCES_BY_CONFIG, config.metadata.name):
            newest = applied.get(each.metadata.uid, each)
            yield newest if newest.metadata.generation == each.metadata.generation else each

    async def _bring(self, seen: ModuleCrSnapshot, reference: ResourceReference) -> float | None:
        """Write what the status does not say, and an Event; return in how many seconds to look again."""
        kyma = seen.config.spec.kyma
        schema = self.schemas.known(kyma, reference.api_version, reference.kind)
        if schema is not None and seen.memory.written is not None and not seen.is_released:
            to_write = rules.to_write(seen, schema)
            if to_write.fields is None and to_write.event is None:
                return to_write.requeue_after
        async with self.connections.to(kyma) as skr:
            module_cr = await ModuleCrInSkr.of(skr, reference)
            if seen.is_released and not await self._is_being_deleted(module_cr, seen):
                if seen.memory.written:
                    await self._write(module_cr, seen, {})  # nobody would correct it any more
                return None
            schema = await self._read(module_cr, seen)
            to_write = rules.to_write(seen, schema)
            while to_write.fields is not None and not await self._write(module_cr, seen, to_write.fields):
                to_write = rules.to_write(seen, await self._read(module_cr, seen))
            if to_write.event is not None:
                await module_cr.record(self.events, to_write.event)
                seen.memory.last_event, seen.memory.last_event_at = to_write.event, seen.seconds
        return to_write.requeue_after

    async def _read(self, module_cr: ModuleCrInSkr, seen: ModuleCrSnapshot) -> StatusSchema:
        """Return which fields the kind has, and note what is written there, as far as it is not known."""
        kyma, resource, memory = seen.config.spec.kyma, module_cr.resource, seen.memory
        with part("ReadModuleCr"):
            schema = self.schemas.known(kyma, resource.api_version, resource.kind)
            schema = schema or await self.schemas.read(kyma, resource, module_cr.client)
            if memory.written is not None or (head := await module_cr.read()) is None:
                return schema
        memory.written = head.written()
        if seen.verdict.is_settled and not schema.has("state") and not schema.has("conditions"):
            # An earlier process has said this: there is no status to read it from.
            memory.last_event, memory.last_event_at = event_of(seen.verdict), seen.seconds
        return schema

    async def _is_being_deleted(self, module_cr: ModuleCrInSkr, seen: ModuleCrSnapshot) -> bool:
        """Tell whether a Module CR goes with its ModuleConfig, and note what is written there. Raises KubeError."""
        with part("ReadModuleCr"):
            head = await module_cr.read()
        seen.memory.written = head.written() if head is not None else None
        return head is not None and head.metadata.deletion_timestamp is not None

    async def _write(self, module_cr: ModuleCrInSkr, seen: ModuleCrSnapshot, fields: Fields) -> bool:
        """Write the status; tell whether that is done. If not, the memory says why. Raises KubeError."""
        memory = seen.memory
        before, memory.written = memory.written, None  # not known any more, until there is an answer
        try:
            with part("WriteStatus"):
                await module_cr.apply_status(fields)
        except Conflict as error:
            if any(each.reason == FIELD_MANAGER_CONFLICT for each in error.causes):
                log.info("status of a module cr is owned by another field manager", **_named(seen), error=str(error))
                memory.written = before  # for the next attempt
                await module_cr.withdraw(before or {}, fields)  # what is left of an earlier status would be stale
                memory.left_alone_at, memory.written = seen.seconds, {}
            return False  # or it is another object, which gets a new reference
        except (Forbidden, Invalid, BadRequest) as error:
            if not any(each.field == "metadata.uid" for each in error.causes):
                memory.written = before
                self._note_refusal(module_cr, seen, fields, error)
            return False
        memory.written, memory.refused = fields, None
        return True

    def _note_refusal(self, module_cr: ModuleCrInSkr, seen: ModuleCrSnapshot, fields: Fields, error: ApiError) -> None:
        """Go on without the fields of the Module Manager, or without any; it is reported in KCP."""
        memory, status = seen.memory, seen.verdict.status
        self.schemas.forget(seen.config.spec.kyma, module_cr.resource)
        is_of_module = bool(status) and memory.module_status_refused != status and not isinstance(error, Forbidden)
        reason = FIELDS_REFUSED if is_of_module else NOT_WRITTEN
        log.warning("status of a module cr is refused", **_named(seen), error=str(error))
        self.events.record(MODULE_CONFIGS, seen.config, reason, str(error), type="Warning", action="WriteStatus")
        if is_of_module:
            memory.module_status_refused = status
        else:
            memory.refused, memory.refusal_at = fields, seen.seconds

    async def report(self, key: ObjectKey, error: Exception) -> None:
        """Report an unforeseen exception as an Event in KCP."""
        config = self.configs.get(key)
        if config is not None:
            note = failure_of(error).message
            self.events.record(MODULE_CONFIGS, config, NOT_WRITTEN, note, type="Warning", action="WriteStatus")


def _named(seen: ModuleCrSnapshot) -> dict[str, str]:
    spec = seen.config.spec
    known = spec.resource_ref
    place = {known.kind: f"{known.namespace}/{known.name}".lstrip("/")} if known is not None else {}
    return {"kyma": spec.kyma, "module": spec.module} | place


def status_changed(change: Change[ModuleConfig]) -> bool:
    """Tell whether another version of the Module CR was read, or there is another answer to it."""
    old, new = change.old, change.new
    return old is None or new is None or generation_changed(change) or old.status != new.status


def application_changed(change: Change[SyncResource]) -> bool:
    """Tell whether what was made of a Module CR has another status, or is being deleted."""
    old, new = change.old, change.new
    return (
        old is None
        or new is None
        or old.status != new.status
        or old.metadata.being_deleted != new.metadata.being_deleted
    )


def made_from(*resources: SyncResource | None) -> Iterable[ObjectKey]:
    """Return the keys of the ModuleConfigs that SyncResources were made from."""
    return {ObjectKey(each.metadata.namespace, config_of(each)) for each in resources if each is not None}
