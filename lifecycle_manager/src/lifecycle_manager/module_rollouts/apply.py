"""Writes ModuleRollouts, and into Manifests which version is released to their clusters."""

import asyncio
from dataclasses import dataclass, replace
from typing import Any, Literal, assert_never

import msgspec
import structlog
from msgspec.structs import replace as with_fields

from kube_runtime import AlreadyExists, ApiError, Client, EventRecorder, NotFound, Request, Resource, Result
from lifecycle_manager.contract.resources import (
    DATED_RELEASE_METAS,
    FIELD_MANAGER,
    MANIFESTS,
    MODULE_ROLLOUTS,
    MODULE_TEMPLATES,
)
from lifecycle_manager.module_rollouts.plan import CloseRollouts, ReleaseVersion, RolloutDone, StartRollout
from lifecycle_manager.module_rollouts.snapshot import ReleaseChannel, RolloutReader, RolloutSnapshot, RolloutState
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
class RolloutActions:
    kcp: Client
    known: RolloutReader
    events: EventRecorder

    async def apply(
        self,
        request: Request[ReleaseChannel, RolloutState],
        seen: RolloutSnapshot,
        step: StartRollout | ReleaseVersion | CloseRollouts,
    ) -> RolloutSnapshot:
        match step:
            case StartRollout(rollout):
                await self._start(rollout)
            case ReleaseVersion(rollout, status, releases):
                await self._write(rollout, status)
                await self._release(releases)
            case CloseRollouts(closed, deleted):
                for each in closed:
                    await self._write(each, each.status)
                for name in deleted:
                    await self._delete(name)
            case _:
                assert_never(step)
        return replace(seen, taken=True)

    async def finish(
        self, request: Request[ReleaseChannel, RolloutState], seen: RolloutSnapshot, end: RolloutDone
    ) -> Result:
        """Write the status where it has changed. Raises KubeError."""
        if end.problem and seen.release is not None:
            resource: Resource[Any] = (
                MODULE_TEMPLATES if isinstance(seen.release, ModuleTemplate) else DATED_RELEASE_METAS
            )
            self.events.record(resource, seen.release, STRATEGY_MISSING, end.problem, type="Warning")
        if end.rollout is not None and end.status is not None and end.status != end.rollout.status:
            await self._write(end.rollout, end.status)
        return Result(end.requeue_after)

    async def _start(self, rollout: ModuleRollout) -> None:
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

    async def _write(self, rollout: ModuleRollout, status: ModuleRolloutStatus) -> None:
        """Write a status, unless somebody has written the ModuleRollout since it was read. Raises KubeError."""
        metadata = rollout.metadata
        document = {
            "apiVersion": rollout.api_version,
            "kind": rollout.kind,
            "metadata": {
                "name": metadata.name,
                "namespace": metadata.namespace,
                "resourceVersion": metadata.resource_version,
            },
            "status": msgspec.to_builtins(status),
        }
        written = await self.kcp.apply(
            MODULE_ROLLOUTS,
            metadata.name,
            document,
            metadata.namespace,
            field_manager=FIELD_MANAGER,
            subresource="status",
        )
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

    async def _release(self, releases: tuple[tuple[str, ModuleRelease], ...]) -> None:
        """Write releases, some at a time; then raise all refusals, each of which concerns one cluster."""
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
        if refused:
            raise ExceptionGroup("KCP refused to release a version to clusters", refused)

    async def _write_release(self, name: str, release: ModuleRelease) -> None:
        patch = {"status": {"release": msgspec.to_builtins(release)}}
        written = await self.kcp.merge_patch(
            MANIFESTS, name, patch, names.KCP_NAMESPACE, subresource="status", field_manager=RELEASE_MANAGER
        )
        self.known.manifests.wrote(written)

    async def _delete(self, name: str) -> None:
        try:
            await self.kcp.delete(MODULE_ROLLOUTS, name, names.KCP_NAMESPACE)
        except NotFound:
            return
