"""One reconcile of one ModuleConfig: render, write the SyncResource, then write the status of the ModuleConfig.

The SyncResource is written first, since a user waits for its objects. The state Processing is written only if it lasts
for a moment: a change that is applied within milliseconds then costs one write of the status instead of two, and
changes in a row cost one together (`controller`).
"""

import time
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import structlog

from kube_runtime import (
    SYSTEM_CLOCK,
    ApiError,
    Causes,
    Clock,
    Forbidden,
    Informer,
    Invalid,
    KubeError,
    ObjectKey,
    RequestTooLarge,
    Result,
)
from kube_runtime.tracing import exemplar, handed_on, part
from kyma_module_manager.context import ModuleContext
from kyma_module_manager.declaration import ModuleManager
from kyma_module_manager.exceptions import ObjectsRefused, PermanentError, RenderingFailed, SyncFailed
from kyma_module_manager.metrics import ManagerMetrics
from kyma_module_manager.plan import DesiredStatus, desired_status, status_document, sync_resource_document
from kyma_module_manager.rendering import Rendering, render, size_advice
from kyma_module_manager.writer import Writer
from lifecycle_manager_api import ModuleConfig, State, SyncResource, names

T = TypeVar("T")
log = structlog.get_logger("module_manager")

SETTLE_SECONDS = 1.0
RESYNC_SECONDS = 600.0
MAX_WRITES = 10
"""How often a SyncResource is written for one version of a Module CR, until a resync."""
# A plain function that blocks the event loop for longer than this delays the changes of all other Kymas.
SLOW_SECONDS = 0.05


@dataclass(slots=True)
class KeyState:
    """What is remembered of a ModuleConfig between reconciles, in seconds of the monotonic clock."""

    changed_at: float | None = None
    """When the first change was seen that is not reconciled yet."""
    generations: tuple[int, int] = (0, 0)
    """Those of the ModuleConfig and of its SyncResource, as that was last written."""
    writes: tuple[float, ...] = ()
    """When that was written for this generation of the ModuleConfig, of the last `MAX_WRITES`."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """The outcome of one reconcile: why it failed, or when to reconcile again without a trigger."""

    failure: SyncFailed | None = None
    requeue_after: float | None = None


@dataclass(frozen=True, eq=False)
class Reconciler(Generic[T]):
    """Brings the SyncResource and the status of one ModuleConfig to the state that its Module CR describes.

    It may be cancelled at any await, and repeated: every write is a server-side apply of the whole.
    """

    manager: ModuleManager[T]
    configs: Informer[ModuleConfig]
    sync_resources: Informer[SyncResource]
    writer: Writer
    metrics: ManagerMetrics
    clock: Clock = SYSTEM_CLOCK
    settle_seconds: float = SETTLE_SECONDS
    resync_seconds: float = RESYNC_SECONDS

    async def reconcile(self, key: ObjectKey, _causes: Causes, state: KeyState) -> Result:
        """Reconcile one ModuleConfig.

        Raises RenderingFailed or KubeError if a retry can help; a PermanentError is only reported in conditions.
        """
        attempt = await self.attempt(key, state)
        if attempt.failure is not None and not isinstance(attempt.failure, PermanentError):
            refusal = attempt.failure.__cause__
            raise refusal if isinstance(refusal, KubeError) else attempt.failure
        return Result(requeue_after=attempt.requeue_after)

    async def attempt(self, key: ObjectKey, state: KeyState) -> Attempt:
        """Reconcile one ModuleConfig and return the outcome. Raises KubeError."""
        config = self.configs.get(key)
        changed_at, state.changed_at = state.changed_at, None
        if config is None:
            return Attempt()
        outcome = await self._render(key, config)
        now = self.configs.get(key)
        if outcome is not None and (now is None or now.metadata.being_deleted):
            return Attempt()  # deleted while the function ran: its objects would come back for a moment
        if isinstance(outcome, Rendering):
            outcome = await self._write_sync_resource(key, config, outcome, state=state, changed_at=changed_at)
        elif outcome is None:
            await self._delete_sync_resource(key)
        desired = desired_status(config, self.sync_resources.get(key), outcome)
        if desired.state == State.PROCESSING and state.writes:
            # Until then Lifecycle Manager may report the last write.
            remaining = state.writes[-1] + self.settle_seconds - self.clock.monotonic()
            if remaining > 0:
                return Attempt(requeue_after=remaining)
        await self._write_status(config, desired)
        if isinstance(outcome, SyncFailed):
            return Attempt(failure=outcome)
        return Attempt(requeue_after=self.resync_seconds)

    async def _render(self, key: ObjectKey, config: ModuleConfig) -> Rendering | SyncFailed | None:
        if config.metadata.being_deleted:
            return None
        started = time.perf_counter()
        try:
            with part("render"):
                rendering = await render(self.manager, ModuleContext(config, self.sync_resources.get(key)))
        except SyncFailed as failure:
            self.metrics.rendered(failure.reason)
            if isinstance(failure, PermanentError):  # the controller logs failures that it retries
                log.warning("rendering failed", **_reference(config), reason=failure.reason, error=str(failure))
            return failure
        seconds = time.perf_counter() - started
        self.metrics.rendered("Rendered")
        self.metrics.render_seconds.observe(seconds, exemplar=exemplar())
        if seconds > SLOW_SECONDS and self.manager.blocks_the_loop:
            log.warning(
                "rendering is slow; consider in_thread", **_reference(config), milliseconds=round(seconds * 1e3, 3)
            )
        return rendering

    async def _write_sync_resource(
        self, key: ObjectKey, config: ModuleConfig, rendering: Rendering, *, state: KeyState, changed_at: float | None
    ) -> Rendering | SyncFailed:
        trace = handed_on(config.metadata.annotations.get(names.TRACEPARENT, ""))
        existing = self.sync_resources.get(key)
        document = sync_resource_document(config, existing, rendering, trace=trace)
        if document is None:
            return rendering
        if existing is not None and self._is_endless(config, existing, rendering, state):
            what = "the function returns other objects in each run; use neither times nor random values"
            log.warning(what, **_reference(config), written_again_after_seconds=self.resync_seconds)
            return replace(rendering, text=existing.spec.resource)
        try:
            written = await self.writer.sync_resource(document)
        except (Invalid, Forbidden, RequestTooLarge) as error:
            message = f"the control plane rejected the SyncResource: {error}"
            if _is_for_size(error):
                return ObjectsRefused(f"{message}; {size_advice(rendering.objects)}")
            # Retried, since a policy or a role may change.
            refused = RenderingFailed(message, reason="SyncResourceRefused")
            refused.__cause__ = error
            return refused
        if written is not None:
            self.sync_resources.wrote(written)
            earlier = state.writes if state.generations[0] == config.metadata.generation else ()
            state.generations = config.metadata.generation, written.metadata.generation
            state.writes = (*earlier, self.clock.monotonic())[-MAX_WRITES:]
            seconds = None if changed_at is None else state.writes[-1] - changed_at
            self._report_written(config, written, rendering, seconds=seconds)
        return rendering

    def _is_endless(self, config: ModuleConfig, existing: SyncResource, rendering: Rendering, state: KeyState) -> bool:
        """Tell whether objects differ from those of the last of many runs on the same Module CR.

        Each write triggers the next run. Second stages are few.
        """
        is_same = state.generations == (config.metadata.generation, existing.metadata.generation)
        is_often = len(state.writes) == MAX_WRITES and self.clock.monotonic() - state.writes[0] < self.resync_seconds
        return is_same and is_often and existing.spec.resource != rendering.text

    async def _delete_sync_resource(self, key: ObjectKey) -> None:
        """Delete the SyncResource without waiting for the garbage collector."""
        existing = self.sync_resources.get(key)
        if existing is not None and not existing.metadata.being_deleted:
            await self.writer.delete_sync_resource(existing)

    def _report_written(
        self, config: ModuleConfig, written: SyncResource, rendering: Rendering, *, seconds: float | None
    ) -> None:
        self.metrics.sync_resources_written.inc()
        if seconds is not None:
            self.metrics.reaction_seconds.observe(seconds, exemplar=exemplar())
        log.info(
            "sync resource written",
            **_reference(config),
            objects=len(rendering.objects),
            resource_version=written.metadata.resource_version,
            observed_at=config.metadata.annotations.get(names.OBSERVED_AT, ""),
            milliseconds=None if seconds is None else round(seconds * 1e3, 3),
        )

    async def _write_status(self, config: ModuleConfig, desired: DesiredStatus) -> None:
        document = status_document(config, desired, self.clock.now())
        if document is None:
            return
        written = await self.writer.status(document)
        if written is not None:
            self.configs.wrote(written)
            self.metrics.status_written.inc()


def _is_for_size(error: ApiError) -> bool:
    """Tell whether an object was rejected for its size: by etcd, the API server or its CRD."""
    return isinstance(error, RequestTooLarge) or any(each.reason == "FieldValueTooLong" for each in error.causes)


def _reference(config: ModuleConfig) -> dict[str, Any]:
    return {
        "kyma": config.spec.kyma,
        "module": config.spec.module,
        "name": config.metadata.name,
        "traceparent": config.metadata.annotations.get(names.TRACEPARENT, ""),
    }
