"""Carries out the steps for mandatory modules, in KCP. The SKRs are not involved."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from kube_runtime import ApiError, Client, EventRecorder, Informer, Resource
from lifecycle_manager.kcp_writes import remove_finalizer, set_finalizers
from lifecycle_manager.mandatory_modules.plan import (
    ApplyManifest,
    CannotInstall,
    DeleteManifest,
    InstallationStep,
    SetFinalizer,
)
from lifecycle_manager.mandatory_modules.status import report
from lifecycle_manager.module_catalog.writing import apply_manifest, delete_manifest
from lifecycle_manager.resources import DATED_RELEASE_METAS, MODULE_TEMPLATES, DatedReleaseMeta
from lifecycle_manager_api import Manifest, ModuleTemplate, names

T = TypeVar("T")


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


@dataclass(frozen=True, eq=False)
class Retirement:
    """Writes the finalizer of releases."""

    kcp: Client
    templates: Informer[ModuleTemplate]
    releases: Informer[DatedReleaseMeta]

    async def apply(self, step: SetFinalizer) -> None:
        """Add or remove the finalizer. Raises KubeError."""
        if isinstance(step.release, ModuleTemplate):
            await self._write(MODULE_TEMPLATES, self.templates, step)
        else:
            await self._write(DATED_RELEASE_METAS, self.releases, step)

    async def _write(self, resource: Resource[T], informer: Informer[T], step: SetFinalizer) -> None:
        metadata = step.release.metadata
        written: T | None
        if step.held:
            finalizers = (*metadata.finalizers, names.MANDATORY_FINALIZER)
            written = await set_finalizers(self.kcp, resource, metadata, finalizers)
        else:
            written = await remove_finalizer(self.kcp, resource, metadata, names.MANDATORY_FINALIZER)
        if written is not None:
            informer.wrote(written)
