"""Carries out the actions that were planned for a Kyma, each idempotent."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, assert_never

import msgspec

from kube_runtime import (
    AlreadyExists,
    ApiError,
    Applier,
    Client,
    Conflict,
    EventRecorder,
    Informer,
    JsonObject,
    KubernetesObject,
    NotFound,
)
from lifecycle_manager.kcp_writes import finalizers_of, remove_finalizer, set_finalizers, write_status
from lifecycle_manager.kyma import plan as planned
from lifecycle_manager.kyma.events import Event
from lifecycle_manager.kyma.purge import purge_finalizers
from lifecycle_manager.kyma.reasons import MODULE_NOT_WRITTEN
from lifecycle_manager.kyma.status import OWN_CONDITIONS
from lifecycle_manager.module_catalog.writing import apply_manifest, delete_manifest
from lifecycle_manager.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    FIELD_MANAGER,
    KYMAS,
    MANIFESTS,
    RAW_KYMAS,
    SECRETS,
    SYNC_RESOURCES,
)
from lifecycle_manager.takeover import former
from lifecycle_manager_api import Kyma, KymaStatus, Manifest, SkrRecords, names

NAMESPACE: JsonObject = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {
        "name": names.SKR_NAMESPACE,
        "labels": {
            names.MANAGED_BY: names.LIFECYCLE_MANAGER,
            "istio-injection": "enabled",
            "namespaces.warden.kyma-project.io/validate": "enabled",
        },
    },
}
"""The namespace of all that is ours in an SKR, with upstream's labels for Istio and for Warden, which checks images."""
NO_STATUS: dict[str, None] = dict.fromkeys(KymaStatus.__struct_encode_fields__)


@dataclass(frozen=True, eq=False)
class SkrActions:
    """Acts in one SKR.

    `kyma` is the Kyma CR there as it was read, None where there is none; `crd` is the CRD that the SKR gets;
    `pull_secret` is the name of the image pull Secret.
    """

    skr: Client
    kyma: Kyma | None
    crd: JsonObject
    events: EventRecorder
    pull_secret: str = ""

    async def carry_out(self, action: planned.SkrAction) -> Kyma | None:
        """Carry out an action; return the Kyma CR that was created, if any. Raises KubeError."""
        match action:
            case planned.InstallKymaCrd():
                await self._install_crd()
            case planned.CreateSkrKyma():
                return await self._create_kyma(action)
            case planned.SyncSkrMetadata(labels, annotations):
                await self._patch({"metadata": {"labels": dict(labels), "annotations": dict(annotations)}})
            case planned.WriteSkrStatus(status, events):
                whole = {**NO_STATUS, **msgspec.to_builtins(status)}
                await self._patch({"status": whole}, subresource="status")
                await self._record(events)
            case planned.DeleteSkrKyma(purge):
                await self._remove_finalizers(of_others=purge)
                with suppress(NotFound):  # a user was faster
                    await self.skr.delete(KYMAS, names.DEFAULT_KYMA_NAME, names.SKR_NAMESPACE)
            case planned.DeletePullSecret():
                await self._delete_pull_secret()
            case planned.RemoveSkrFinalizer():
                await self._remove_finalizers(of_others=False)
            case planned.RemoveKymaCrd():
                await self._remove_crd()
            case planned.PurgeFinalizers(owners):
                await purge_finalizers(self.skr, owners)
            case _:
                assert_never(action)
        return None

    async def _install_crd(self) -> None:
        objects = [KubernetesObject.of(document) for document in (NAMESPACE, self.crd)]
        applied = await Applier(self.skr, field_manager=FIELD_MANAGER).apply(objects, (), prune=False)
        applied.raise_first_failure()

    async def _create_kyma(self, action: planned.CreateSkrKyma) -> Kyma | None:
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
        with suppress(AlreadyExists):  # a user was faster, and the spec belongs to the users
            return await self.skr.create(KYMAS, document, names.SKR_NAMESPACE, field_manager=FIELD_MANAGER)
        return None

    async def _patch(self, content: dict[str, Any], *, subresource: str | None = None) -> None:
        """Change the Kyma CR by a merge patch: an apply would leave what users have added to a list or a map."""
        await self.skr.merge_patch(
            RAW_KYMAS,
            names.DEFAULT_KYMA_NAME,
            content,
            names.SKR_NAMESPACE,
            field_manager=FIELD_MANAGER,
            subresource=subresource,
        )

    async def _record(self, events: Iterable[Event]) -> None:
        """Write Events at once: the recorder's queue is for KCP, not for thousands of SKRs."""
        if self.kyma is None:
            return
        for kind, reason, note in events:
            await self.events.write_to(self.skr, KYMAS, self.kyma, reason, note, type=kind)

    async def _remove_finalizers(self, *, of_others: bool) -> None:
        """Remove finalizers from the Kyma CR. Other versions of Lifecycle Manager set one of their own there."""
        finalizers = self.kyma.metadata.finalizers if self.kyma is not None else ()
        left = [] if of_others else [name for name in finalizers if name != names.KYMA_FINALIZER]
        if self.kyma is None or len(left) == len(finalizers):
            return
        with suppress(NotFound):  # deleted meanwhile
            await self._patch({"metadata": finalizers_of(self.kyma.metadata, left)})

    async def _delete_pull_secret(self) -> None:
        if self.pull_secret:  # else the option was taken away meanwhile, and with it the name
            with suppress(NotFound):  # a user was faster
                await self.skr.delete(SECRETS, self.pull_secret, names.SKR_NAMESPACE)

    async def _remove_crd(self) -> None:
        with suppress(NotFound):  # deleted before, or never created
            if not await self.skr.list_revisions(KYMAS):  # those would be users' own
                await self.skr.delete(CUSTOM_RESOURCE_DEFINITIONS, KYMAS.plural_name)


@dataclass(frozen=True, eq=False)
class KcpActions:
    """Acts on one Kyma in KCP. The informers learn what was written."""

    kcp: Client
    kyma: Kyma
    kymas: Informer[Kyma]
    manifests: Informer[Manifest]
    events: EventRecorder

    async def carry_out(self, actions: Iterable[planned.KcpAction]) -> None:
        """Carry out the actions in their order.

        Where KCP refuses the change of one module, the other modules and the status are written all the same. Raises
        KubeError in the end.
        """
        refusals = []
        for action in actions:
            try:
                await self._carry_out(action)
            except ApiError as error:
                if not isinstance(action, planned.ModuleAction):
                    raise
                refusals.append(error)
                self.events.record(KYMAS, self.kyma, MODULE_NOT_WRITTEN, str(error), type="Warning")
        if refusals:
            raise refusals[0]

    async def _carry_out(self, action: planned.KcpAction) -> None:
        kcp, metadata = self.kcp, self.kyma.metadata
        written: Kyma | None = None
        match action:
            case planned.AddFinalizer():
                written = await set_finalizers(kcp, KYMAS, metadata, (*metadata.finalizers, names.KYMA_FINALIZER))
            case planned.RemoveFinalizer(of_others):
                removed = metadata.finalizers if of_others else (names.KYMA_FINALIZER, *former.KYMA_FINALIZERS)
                written = await remove_finalizer(kcp, KYMAS, metadata, *removed)
            case planned.WriteStatus(status, events):
                # Those of a former version, which has the same field manager, stay until their domain replaces them.
                own = tuple(
                    each for each in status.conditions if each.type in OWN_CONDITIONS or former.is_of_a_part(each)
                )
                records = SkrRecords(kyma_crd=status.records.kyma_crd)
                status = msgspec.structs.replace(status, conditions=own, records=records)
                written = await write_status(kcp, KYMAS, metadata, status)
                for kind, reason, note in events:
                    self.events.record(KYMAS, self.kyma, reason, note, type=kind)
            case _:
                await self._change_module(action)
        if written is not None:
            self.kymas.wrote(written)

    async def _change_module(self, action: planned.ModuleAction) -> None:
        match action:
            case planned.ApplyManifest(manifest, managed_again):
                if managed_again:
                    await self._annotate(manifest.metadata.name, {names.IS_UNMANAGED: None})
                await apply_manifest(self.kcp, self.manifests, manifest)
            case planned.UpdateLeavingManifest(manifest):
                with suppress(Conflict):  # gone: the API server finds no object with its uid
                    await apply_manifest(self.kcp, self.manifests, manifest)
            case planned.MarkUnmanaged(name):
                await self._annotate(name, {names.IS_UNMANAGED: "true"})
            case planned.DeleteManifest(name):
                await delete_manifest(self.kcp, name, self.kyma.metadata.namespace)
            case planned.DeleteSyncResource(name, namespace):
                with suppress(NotFound):  # deleted meanwhile
                    await self.kcp.delete(SYNC_RESOURCES, name, namespace)
            case _:
                assert_never(action)

    async def _annotate(self, manifest: str, annotations: dict[str, str | None]) -> None:
        patch = {"metadata": {"annotations": annotations}}
        namespace = self.kyma.metadata.namespace
        answer = await self.kcp.merge_patch(MANIFESTS, manifest, patch, namespace, field_manager=FIELD_MANAGER)
        self.manifests.wrote(answer)
