"""Carries out the steps for mandatory modules in KCP, and reports on them. The SKRs are not involved."""

from collections.abc import Awaitable
from dataclasses import dataclass, replace

import structlog

from kube_runtime import ApiError, Client, Clock, End, EventRecorder, ObjectKey, Request, Result
from lifecycle_manager.contract.conditions import MANDATORY_MODULES, write_condition
from lifecycle_manager.contract.writes import remove_finalizers, set_finalizers
from lifecycle_manager.mandatory_modules.plan import InstallationDone, SetFinalizer, WriteManifests
from lifecycle_manager.mandatory_modules.snapshot import (
    InstallationSnapshot,
    MandatoryReader,
    ReleaseKey,
    RetirementSnapshot,
)
from lifecycle_manager.mandatory_modules.status import CANNOT_BE_INSTALLED, MandatoryCondition, failed
from lifecycle_manager.module_catalog.writing import apply_manifest, delete_manifest
from lifecycle_manager_api import Kyma, names

FIELD_MANAGER = "lifecycle-manager-mandatory-modules"
log = structlog.get_logger("mandatory_modules")


@dataclass(frozen=True, eq=False)
class Installation:
    """Writes the Manifests of a Kyma, and its condition."""

    kcp: Client
    known: MandatoryReader
    events: EventRecorder
    clock: Clock

    async def apply(
        self, request: Request[ObjectKey, None], seen: InstallationSnapshot, step: WriteManifests
    ) -> InstallationSnapshot:
        """Write all Manifests, then raise all refusals: each concerns one module. Raises KubeError."""
        for each in step.cannot:
            resource = self.known.informer_of(each.release.KIND).resource
            self.events.record(resource, each.release, CANNOT_BE_INSTALLED, each.why, type="Warning")
        refused: list[ApiError] = []

        async def attempt(write: Awaitable[None]) -> None:
            try:
                await write
            except ApiError as error:
                refused.append(error)

        for manifest in step.apply:
            await attempt(apply_manifest(self.kcp, self.known.manifests, manifest))
        for name in step.delete:
            since = seen.removed_since.get(name)
            marks = {} if since is None else {names.REMOVED_SINCE: since.isoformat()}
            await attempt(delete_manifest(self.kcp, name, request.key.namespace, marks))
        if refused:
            raise ExceptionGroup("KCP refused Manifests of mandatory modules", refused)
        return replace(seen, are_written=True)

    async def finish(
        self, _request: Request[ObjectKey, None], seen: InstallationSnapshot, end: InstallationDone
    ) -> Result:
        if end.condition is not None:
            await self._write(seen.kyma, end.condition)
        return Result(end.requeue_after)

    async def unforeseen(self, key: ObjectKey, error: Exception) -> None:
        """Report an unforeseen exception as a condition of the Kyma. Raises KubeError."""
        if (kyma := self.known.kymas.get(key)) is not None:
            await self._write(kyma, failed(error))

    async def _write(self, kyma: Kyma, condition: MandatoryCondition) -> None:
        written = await write_condition(
            self.kcp, kyma, MANDATORY_MODULES, condition, now=self.clock.now(), field_manager=FIELD_MANAGER
        )
        if written is not None:
            self.known.kymas.wrote(written)


@dataclass(frozen=True, eq=False)
class Retirement:
    kcp: Client
    known: MandatoryReader
    events: EventRecorder

    async def apply(
        self, request: Request[ReleaseKey, None], seen: RetirementSnapshot, step: SetFinalizer
    ) -> RetirementSnapshot:
        """Add or remove the finalizer of a release. Raises KubeError."""
        informer, metadata = self.known.informer_of(request.key.kind), seen.release.metadata
        if step.held:
            finalizers = (*metadata.finalizers, names.MANDATORY_FINALIZER)
            informer.wrote(await set_finalizers(self.kcp, informer.resource, metadata, finalizers))
        else:
            await remove_finalizers(self.kcp, informer, metadata, names.MANDATORY_FINALIZER)
        return replace(seen, is_written=True)

    async def finish(self, request: Request[ReleaseKey, None], seen: RetirementSnapshot, end: End) -> Result:
        if end.requeue_after is not None:
            waits_for = len(seen.manifests)
            log.info("waiting for Manifests of a mandatory module", release=str(request.key), manifests=waits_for)
        return Result(end.requeue_after)

    async def unforeseen(self, key: ReleaseKey, error: Exception) -> None:
        """Report an unforeseen exception as an Event: releases have no conditions."""
        if (release := self.known.get(key)) is not None:
            _, reason, message = failed(error)
            self.events.record(self.known.informer_of(key.kind).resource, release, reason, message, type="Warning")
