"""Carries out the steps for mandatory modules, in KCP. The SKRs are not involved."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kube_runtime import ApiError, Client, EventRecorder, Informer
from lifecycle_manager.kcp_writes import remove_finalizer, set_finalizers
from lifecycle_manager.kyma_conditions import MANDATORY_MODULES, write_condition
from lifecycle_manager.mandatory_modules.plan import (
    ApplyManifest,
    CannotInstall,
    DeleteManifest,
    InstallationStep,
    SetFinalizer,
)
from lifecycle_manager.mandatory_modules.status import FIELD_MANAGER, report
from lifecycle_manager.module_catalog.writing import apply_manifest, delete_manifest
from lifecycle_manager_api import ConditionStatus, Kyma, Manifest, names


@dataclass(frozen=True, eq=False)
class Installation:
    """Writes the Manifests of a Kyma."""

    kcp: Client
    manifests: Informer[Manifest]
    events: EventRecorder

    async def apply(self, steps: Iterable[InstallationStep], namespace: str) -> None:
        """Carry out all steps, then raise the first refusal: it concerns one module. Raises KubeError."""
        refusals = []
        for step in steps:
            try:
                await self._apply_one(step, namespace)
            except ApiError as error:
                refusals.append(error)
        if refusals:
            raise refusals[0]

    async def _apply_one(self, step: InstallationStep, namespace: str) -> None:
        match step:
            case ApplyManifest(manifest):
                await apply_manifest(self.kcp, self.manifests, manifest)
            case DeleteManifest(name):
                await delete_manifest(self.kcp, name, namespace)
            case CannotInstall():
                report(self.events, step)


async def set_condition(
    kcp: Client, kymas: Informer[Kyma], kyma: Kyma, content: tuple[ConditionStatus, str, str], *, now: datetime
) -> None:
    """Write the condition of a Kyma. Raises KubeError."""
    written = await write_condition(kcp, kyma, MANDATORY_MODULES, content, now=now, field_manager=FIELD_MANAGER)
    if written is not None:
        kymas.wrote(written)


async def set_finalizer(kcp: Client, informer: Informer[Any], step: SetFinalizer) -> None:
    """Add or remove the finalizer of a release, which the informer has. Raises KubeError."""
    metadata = step.release.metadata
    if step.held:
        finalizers = (*metadata.finalizers, names.MANDATORY_FINALIZER)
        written = await set_finalizers(kcp, informer.resource, metadata, finalizers)
    else:
        written = await remove_finalizer(kcp, informer.resource, metadata, names.MANDATORY_FINALIZER)
    if written is not None:
        informer.wrote(written)
