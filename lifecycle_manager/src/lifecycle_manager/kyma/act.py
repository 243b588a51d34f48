"""Carries out what was planned for a Kyma: idempotent, by server-side apply where there is more than one writer."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, assert_never

import msgspec

from kube_runtime import (
    AlreadyExists,
    ApiError,
    Applier,
    Client,
    EventRecorder,
    JsonObject,
    KubernetesObject,
    NotFound,
)
from lifecycle_manager.kcp_writes import remove_finalizer, patch_metadata, set_finalizers, write_status
from lifecycle_manager.kyma import plan as planned
from lifecycle_manager.kyma.purge import purge_finalizers, purge_synced
from lifecycle_manager.kyma.status import OWN_CONDITIONS
from lifecycle_manager.kyma.story import Happening
from lifecycle_manager.module_catalog.writing import apply_manifest, delete_manifest
from lifecycle_manager.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    FIELD_MANAGER,
    KYMAS,
    MANIFESTS,
    RAW_KYMAS,
    SYNC_RESOURCES,
)
from lifecycle_manager_api import Kyma, KymaStatus, names

NAMESPACE: JsonObject = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": names.SKR_NAMESPACE}}
NO_STATUS: dict[str, None] = dict.fromkeys(KymaStatus.__struct_encode_fields__)


@dataclass(frozen=True, eq=False)
class SkrActions:
    """Acts in one user cluster.

    `kyma` is the users' CR as it was read, None where there is none; `definition` is the CRD that it is to have.
    """

    skr: Client
    kyma: Kyma | None
    definition: JsonObject
    events: EventRecorder

    async def carry_out(self, actions: Iterable[planned.SkrAction]) -> None:
        """Carry out the actions in their order. Raises KubeError at the first that fails."""
        for action in actions:
            await self._carry_out(action)

    async def _carry_out(self, action: planned.SkrAction) -> None:
        match action:
            case planned.InstallKymaCrd():
                await self._install_crd()
            case planned.CreateSkrKyma():
                await self._create_kyma(action)
            case planned.SyncSkrMetadata(labels, annotations):
                await self._patch({"metadata": {"labels": dict(labels), "annotations": dict(annotations)}})
            case planned.WriteSkrStatus(status):
                whole = {**NO_STATUS, **msgspec.to_builtins(status)}
                await self._patch({"status": whole}, subresource="status")
            case planned.TellUsers(happenings):
                await self._tell(happenings)
            case planned.DeleteSkrKyma(purge):
                await self._release(everybodys=purge)
                await self._delete_kyma()
            case planned.ReleaseSkrKyma():
                await self._release(everybodys=False)
            case planned.RemoveKymaCrd():
                await self._remove_crd()
            case planned.PurgeFinalizers(manifests, sync_resources):
                await purge_finalizers(self.skr, manifests)
                await purge_synced(self.skr, sync_resources)
            case _:
                assert_never(action)

    async def _install_crd(self) -> None:
        objects = [KubernetesObject.of(document) for document in (NAMESPACE, self.definition)]
        applied = await Applier(self.skr, field_manager=FIELD_MANAGER).apply(objects, (), prune=False)
        applied.raise_first_failure()

    async def _create_kyma(self, action: planned.CreateSkrKyma) -> None:
        document = {
            "apiVersion": KYMAS.api_version,
            "kind": KYMAS.kind,
            "metadata": {
                "name": names.DEFAULT_KYMA_NAME,
                "namespace": names.SKR_NAMESPACE,
                "labels": dict(action.labels),
                "annotations": dict(action.annotations),
            },
            "spec": msgspec.to_builtins(action.spec),
        }
        try:
            await self.skr.create(KYMAS, document, names.SKR_NAMESPACE, field_manager=FIELD_MANAGER)
        except AlreadyExists:
            return  # a user was faster, and the spec is theirs

    async def _patch(self, content: dict[str, Any], *, subresource: str | None = None) -> None:
        """Change the users' CR by a merge patch: an apply would leave what users have added to a list or a map."""
        await self.skr.merge_patch(
            RAW_KYMAS,
            names.DEFAULT_KYMA_NAME,
            content,
            names.SKR_NAMESPACE,
            field_manager=FIELD_MANAGER,
            subresource=subresource,
        )

    async def _tell(self, happenings: Iterable[Happening]) -> None:
        """Write Events at once: the recorder of the control plane can't follow into thousands of clusters."""
        if self.kyma is None:
            return
        for kind, reason, note in happenings:
            await self.events.write_to(self.skr, KYMAS, self.kyma, reason, note, type=kind)

    async def _delete_kyma(self) -> None:
        try:
            await self.skr.delete(KYMAS, names.DEFAULT_KYMA_NAME, names.SKR_NAMESPACE)
        except NotFound:
            return  # a user was faster

    async def _release(self, *, everybodys: bool) -> None:
        """Take finalizers off the users' Kyma CR. Other versions of the Lifecycle Manager put one of ours there."""
        held = self.kyma.metadata.finalizers if self.kyma is not None else ()
        left = [] if everybodys else [name for name in held if name != names.KYMA_FINALIZER]
        if self.kyma is None or len(left) == len(held):
            return
        patch = {"metadata": {"finalizers": left, "resourceVersion": self.kyma.metadata.resource_version}}
        try:
            await self._patch(patch)
        except NotFound:
            return  # it went by itself

    async def _remove_crd(self) -> None:
        try:
            if await self.skr.list_revisions(KYMAS):
                return  # somebody's own
            await self.skr.delete(CUSTOM_RESOURCE_DEFINITIONS, f"{KYMAS.plural}.{KYMAS.group}")
        except NotFound:
            return  # it went before, or never came


@dataclass(frozen=True, eq=False)
class KcpActions:
    """Acts on one Kyma in the control plane."""

    kcp: Client
    kyma: Kyma
    events: EventRecorder

    async def carry_out(self, actions: Iterable[planned.KcpAction]) -> None:
        """Carry out the actions in their order.

        What the control plane refuses of one module holds the others and the status up no longer than until they are
        written. Raises KubeError in the end.
        """
        refusals = []
        for action in actions:
            try:
                await self._carry_out(action)
            except ApiError as error:
                if not isinstance(action, planned.ModuleAction):
                    raise
                refusals.append(error)
                self.events.record(KYMAS, self.kyma, "ModuleNotWritten", str(error), type="Warning")
        if refusals:
            raise refusals[0]

    async def _carry_out(self, action: planned.KcpAction) -> None:
        metadata = self.kyma.metadata
        match action:
            case planned.AddFinalizer():
                await set_finalizers(self.kcp, KYMAS, metadata, (*metadata.finalizers, names.KYMA_FINALIZER))
            case planned.RemoveFinalizer():
                await remove_finalizer(self.kcp, KYMAS, metadata, names.KYMA_FINALIZER)
            case planned.RecordCrdHash(crd_hash):
                await patch_metadata(self.kcp, KYMAS, metadata, {"annotations": {planned.CRD_HASH: crd_hash}})
            case planned.WriteStatus(status):
                await self._write_status(status)
            case planned.Tell(happenings):
                for kind, reason, note in happenings:
                    self.events.record(KYMAS, self.kyma, reason, note, type=kind)
            case _:
                await self._change_module(action)

    async def _change_module(self, action: planned.ModuleAction) -> None:
        match action:
            case planned.ApplyManifest(manifest, managed_again):
                if managed_again:
                    await self._annotate(manifest.metadata.name, {names.IS_UNMANAGED: None})
                await apply_manifest(self.kcp, manifest)
            case planned.LeaveAlone(name):
                await self._annotate(name, {names.IS_UNMANAGED: "true"})
            case planned.DeleteManifest(name):
                await delete_manifest(self.kcp, name, self.kyma.metadata.namespace)
            case planned.DeleteSyncResource(name):
                await self._delete_sync_resource(name)
            case _:
                assert_never(action)

    async def _annotate(self, manifest: str, annotations: dict[str, str | None]) -> None:
        patch = {"metadata": {"annotations": annotations}}
        namespace = self.kyma.metadata.namespace
        await self.kcp.merge_patch(MANIFESTS, manifest, patch, namespace, field_manager=FIELD_MANAGER)

    async def _delete_sync_resource(self, name: str) -> None:
        try:
            await self.kcp.delete(SYNC_RESOURCES, name, self.kyma.metadata.namespace)
        except NotFound:
            return  # the cache was behind

    async def _write_status(self, status: KymaStatus) -> None:
        own = tuple(condition for condition in status.conditions if condition.type in OWN_CONDITIONS)
        await write_status(self.kcp, KYMAS, self.kyma.metadata, msgspec.structs.replace(status, conditions=own))
