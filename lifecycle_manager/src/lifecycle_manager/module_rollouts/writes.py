"""Writes ModuleRollouts, and into Manifests which version is released to their clusters."""

import asyncio
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import structlog
from msgspec.structs import replace as with_fields

from kube_runtime import AlreadyExists, ApiError, Client, Conflict, EventRecorder, NotFound, Resource
from lifecycle_manager.contract.resources import (
    DATED_RELEASE_METAS,
    FIELD_MANAGER,
    MANIFESTS,
    MODULE_ROLLOUTS,
    MODULE_TEMPLATES,
    DatedReleaseMeta,
)
from lifecycle_manager.contract.writes import write_status
from lifecycle_manager.module_rollouts.snapshot import RolloutReader
from lifecycle_manager.module_rollouts.status import COMPLETED, HALTED, PROGRESSING
from lifecycle_manager_api import (
    ModuleRelease,
    ModuleRollout,
    ModuleRolloutStatus,
    ModuleTemplate,
    as_document,
    find,
    names,
)

RELEASE_MANAGER = "lifecycle-manager-rollouts"
WRITES_AT_ONCE = 20
CONDITION_OF = {"Halted": HALTED, "Completed": COMPLETED}
"""The condition whose reason an Event has, by the phase that begins; otherwise Progressing."""
STRATEGY_MISSING = "RolloutStrategyMissing"
log = structlog.get_logger("module_rollouts")


@dataclass(frozen=True, eq=False)
class RolloutWrites:
    """What is written in KCP, and the Events about it."""

    kcp: Client
    known: RolloutReader
    events: EventRecorder

    def report(self, release: DatedReleaseMeta | ModuleTemplate, problem: str) -> None:
        """Record an Event about a release for which no rollout can begin."""
        resource: Resource[Any] = MODULE_TEMPLATES if isinstance(release, ModuleTemplate) else DATED_RELEASE_METAS
        self.events.record(resource, release, STRATEGY_MISSING, problem, type="Warning")

    async def start(self, rollout: ModuleRollout) -> None:
        """Create a ModuleRollout. Raises KubeError."""
        document = {key: value for key, value in as_document(rollout).items() if key != "status"}
        try:
            created = await self.kcp.create(
                MODULE_ROLLOUTS, document, rollout.metadata.namespace, field_manager=FIELD_MANAGER
            )
        except AlreadyExists:
            return  # the cache is behind
        self.known.rollouts.wrote(created)
        spec = rollout.spec
        log.info("rollout begins", module=spec.module_name, channel=spec.channel, version=spec.version)
        note = f"version {spec.version} of module {spec.module_name} is rolled out in channel {spec.channel}"
        self.events.record(MODULE_ROLLOUTS, created, "RolloutStarted", note)

    async def write_status(self, rollout: ModuleRollout, status: ModuleRolloutStatus) -> None:
        """Write a status, unless somebody has written the ModuleRollout since it was read. Raises KubeError."""
        written = await write_status(self.kcp, MODULE_ROLLOUTS, rollout.metadata, status, as_read=True)
        self.known.rollouts.wrote(written)
        self._report(rollout, with_fields(written, status=status))

    def _report(self, before: ModuleRollout, after: ModuleRollout) -> None:
        """Record an Event where a rollout halts or ends."""
        phase = after.status.phase
        if phase == before.status.phase or phase not in {"Halted", "Completed", "AwaitingApproval", "Superseded"}:
            return
        condition = find(after.status.conditions, CONDITION_OF.get(phase, PROGRESSING))
        reason = condition.reason if condition is not None else phase
        kind: Literal["Normal", "Warning"] = "Warning" if phase == "Halted" else "Normal"
        self.events.record(MODULE_ROLLOUTS, after, reason, after.status.message, type=kind)

    async def release(self, releases: tuple[tuple[str, ModuleRelease], ...]) -> None:
        """Write releases, some at a time; then raise the first refusal, each of which concerns one cluster."""
        refused: list[ApiError] = []
        places = asyncio.Semaphore(WRITES_AT_ONCE)

        async def write(name: str, release: ModuleRelease) -> None:
            async with places:
                try:
                    await self._write_release(name, release)
                except NotFound:
                    return  # the module was removed meanwhile
                except ApiError as error:
                    refused.append(error)

        async with asyncio.TaskGroup() as group:
            for name, release in releases:
                group.create_task(write(name, release))
        if refused:  # a conflict is retried at once, so it counts only where it is alone
            raise min(refused, key=lambda error: isinstance(error, Conflict))

    async def _write_release(self, name: str, release: ModuleRelease) -> None:
        patch = {"status": {"release": msgspec.to_builtins(release)}}
        written = await self.kcp.merge_patch(
            MANIFESTS, name, patch, names.KCP_NAMESPACE, subresource="status", field_manager=RELEASE_MANAGER
        )
        self.known.manifests.wrote(written)

    async def delete(self, name: str) -> None:
        """Delete a ModuleRollout. Raises KubeError."""
        try:
            await self.kcp.delete(MODULE_ROLLOUTS, name, names.KCP_NAMESPACE)
        except NotFound:
            return
