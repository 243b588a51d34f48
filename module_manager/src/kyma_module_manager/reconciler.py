"""One reconcile of one ModuleConfig: render, write the SyncResource, then say on the ModuleConfig how it is.

The SyncResource goes first and the status after it, since a user waits for the one and reads the other. That
the objects are still on their way is said only if they stay there for a moment: a change that is in force
within milliseconds then costs one write of the status and not two.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

import structlog

from kube_runtime import ApiError, Forbidden, Invalid, ObjectKey, Result
from kyma_module_manager.context import ModuleContext
from kyma_module_manager.declaration import ModuleManager
from kyma_module_manager.exceptions import PermanentError, RenderingFailed, SyncFailed
from kyma_module_manager.latest import Latest
from kyma_module_manager.metrics import ManagerMetrics
from kyma_module_manager.plan import DesiredStatus, desired_status, status_document, sync_resource_document
from kyma_module_manager.rendering import Rendering, render
from kyma_module_manager.writer import Writer
from lifecycle_manager_api import ModuleConfig, State, SyncResource, names

__all__ = ["Attempt", "Reconciler"]

T = TypeVar("T")
log = structlog.get_logger("module_manager")

SETTLE_SECONDS = 1.0
RESYNC_SECONDS = 600.0
# A plain function that holds the event loop for longer than this delays every other Kyma's change.
SLOW_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Attempt:
    """What came of one reconcile: why it failed, or after how long to look again without being told to."""

    failure: SyncFailed | None = None
    look_again_after: float | None = None


class Reconciler(Generic[T]):
    """Brings the SyncResource and the status of one ModuleConfig to where its Module CR wants them.

    Safe to stop at any await and to run twice: every write is a server-side apply of the whole.
    """

    def __init__(
        self,
        manager: ModuleManager[T],
        configs: Latest[ModuleConfig],
        sync_resources: Latest[SyncResource],
        writer: Writer,
        metrics: ManagerMetrics,
        *,
        now: Callable[[], datetime],
        settle_seconds: float = SETTLE_SECONDS,
        resync_seconds: float = RESYNC_SECONDS,
    ) -> None:
        self._manager = manager
        self._configs = configs
        self._sync_resources = sync_resources
        self._writer = writer
        self._metrics = metrics
        self._now = now
        self._settle_seconds = settle_seconds
        self._resync_seconds = resync_seconds
        self._changed_at: dict[ObjectKey, float] = {}

    def noticed(self, key: ObjectKey) -> None:
        """Note that a change has just been seen, for the time it takes until it is written."""
        self._changed_at.setdefault(key, time.monotonic())

    async def reconcile(self, key: ObjectKey) -> Result:
        """Reconcile one ModuleConfig.

        Raises RenderingFailed or KubeError for what is worth another try; a PermanentError ends in a
        condition.
        """
        attempt = await self.attempt(key)
        if isinstance(attempt.failure, PermanentError):
            return Result()
        if attempt.failure is not None:
            raise attempt.failure
        return Result(requeue_after=attempt.look_again_after)

    async def attempt(self, key: ObjectKey) -> Attempt:
        """Do what there is to do for one ModuleConfig and tell what came of it. Raises KubeError."""
        config = self._configs.get(key)
        changed_at = self._changed_at.pop(key, None)
        if config is None:
            return Attempt()
        outcome = await self._render(key, config)
        if isinstance(outcome, Rendering):
            outcome = await self._write_sync_resource(key, config, outcome, changed_at)
        elif outcome is None:
            await self._remove_sync_resource(key)
        desired = desired_status(config, self._sync_resources.get(key), outcome)
        if (remaining := self._still_settling(key, desired)) > 0:
            return Attempt(look_again_after=remaining)
        await self._write_status(key, config, desired)
        if isinstance(outcome, SyncFailed):
            return Attempt(failure=outcome)
        return Attempt(look_again_after=self._resync_seconds)

    async def _render(self, key: ObjectKey, config: ModuleConfig) -> Rendering | SyncFailed | None:
        if config.metadata.deletion_timestamp is not None:
            return None
        started = time.perf_counter()
        try:
            rendering = await render(self._manager, ModuleContext(config, self._sync_resources.get(key)))
        except SyncFailed as failure:
            self._metrics.rendered(failure.reason)
            if isinstance(failure, PermanentError):  # what is tried again, the controller logs
                log.warning("rendering failed", **_about(config), reason=failure.reason, error=str(failure))
            return failure
        seconds = time.perf_counter() - started
        self._metrics.rendered("Rendered")
        self._metrics.render_seconds.observe(seconds)
        if seconds > SLOW_SECONDS and self._manager.blocks_the_loop:
            log.warning(
                "rendering is slow; consider in_thread",
                **_about(config),
                milliseconds=round(seconds * 1e3, 3),
            )
        return rendering

    async def _write_sync_resource(
        self, key: ObjectKey, config: ModuleConfig, rendering: Rendering, changed_at: float | None
    ) -> Rendering | SyncFailed:
        document = sync_resource_document(config, self._sync_resources.get(key), rendering)
        if document is None:
            return rendering
        try:
            written = await self._writer.sync_resource(document)
        except (Invalid, Forbidden) as error:
            return _refused(error)
        if written is not None:
            self._sync_resources.wrote(key, written)
            self._report_written(config, written, rendering, changed_at)
        return rendering

    async def _remove_sync_resource(self, key: ObjectKey) -> None:
        """Have the objects leave the user cluster at once; the garbage collector would come to it later."""
        existing = self._sync_resources.get(key)
        if existing is not None and existing.metadata.deletion_timestamp is None:
            await self._writer.delete_sync_resource(existing)

    def _report_written(
        self, config: ModuleConfig, written: SyncResource, rendering: Rendering, changed_at: float | None
    ) -> None:
        self._metrics.sync_resources_written.inc()
        milliseconds = None
        if changed_at is not None:
            seconds = time.monotonic() - changed_at
            milliseconds = round(seconds * 1e3, 3)
            self._metrics.reaction_seconds.observe(seconds)
        log.info(
            "sync resource written",
            **_about(config),
            objects=len(rendering.objects),
            resource_version=written.metadata.resource_version,
            observed_at=config.metadata.annotations.get(names.OBSERVED_AT, ""),
            milliseconds=milliseconds,
        )

    def _still_settling(self, key: ObjectKey, desired: DesiredStatus) -> float:
        since = self._sync_resources.seconds_since_write(key)
        if desired.state != State.PROCESSING or since is None:
            return 0.0
        return self._settle_seconds - since

    async def _write_status(self, key: ObjectKey, config: ModuleConfig, desired: DesiredStatus) -> None:
        document = status_document(config, desired, self._now())
        if document is None:
            return
        written = await self._writer.status(document)
        if written is not None:
            self._configs.wrote(key, written)
            self._metrics.status_written.inc()


def _refused(error: ApiError) -> SyncFailed:
    """Turn a refusal into a condition that is tried again: a policy or a role may change."""
    return RenderingFailed(f"the control plane refused the SyncResource: {error}", reason="SyncResourceRefused")


def _about(config: ModuleConfig) -> dict[str, Any]:
    return {
        "kyma": config.spec.kyma,
        "module": config.spec.module,
        "name": config.metadata.name,
        "traceparent": config.metadata.annotations.get(names.TRACEPARENT, ""),
    }
