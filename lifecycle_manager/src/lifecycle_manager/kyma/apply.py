"""Carries out the steps that were planned for a Kyma, each idempotent, and writes its status in KCP."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, assert_never

import msgspec

from kube_runtime import (
    AlreadyExists,
    ApiError,
    Applier,
    Client,
    Conflict,
    Informer,
    JsonObject,
    KubernetesObject,
    Manager,
    NotFound,
    ObjectKey,
    Request,
    Result,
)
from lifecycle_manager.contract import former
from lifecycle_manager.contract.resources import (
    FIELD_MANAGER,
    KYMAS,
    MANIFESTS,
    RAW_KYMAS,
    SYNC_RESOURCES,
)
from lifecycle_manager.contract.signals import CatalogRecorded, ClusterReplaced
from lifecycle_manager.contract.writes import remove_finalizers, set_finalizers, write_status
from lifecycle_manager.kyma import steps
from lifecycle_manager.kyma.deletion import release_in_skr, remove_in_skr
from lifecycle_manager.kyma.events import KymaEvent, events_between, for_operators
from lifecycle_manager.kyma.pull_secret.apply import sync_pull_secret
from lifecycle_manager.kyma.pull_secret.plan import PullSecretCopy, SyncPullSecret
from lifecycle_manager.kyma.reasons import MODULE_NOT_WRITTEN
from lifecycle_manager.kyma.snapshot import KymaSnapshot, KymaState, SkrView, read_skr
from lifecycle_manager.kyma.status import OWN_CONDITIONS, internal_error_status
from lifecycle_manager.module_catalog.writing import apply_manifest, delete_manifest
from lifecycle_manager.skr import Connections, ObservedObject, failure_of
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
KymaRequest = Request[ObjectKey, KymaState]


@dataclass(frozen=True, eq=False)
class KymaActions:
    """Acts on Kymas in KCP and in their SKRs. The informers learn what was written."""

    manager: Manager
    connections: Connections
    kymas: Informer[Kyma]
    manifests: Informer[Manifest]

    async def apply(self, request: KymaRequest, seen: KymaSnapshot, step: steps.KymaStep) -> KymaSnapshot:
        """Carry a step out; return the snapshot with its outcome. Raises KubeError, SkrAccessError."""
        kcp, metadata = self.manager.client, seen.kyma.metadata
        match step:
            case steps.SkrStep() | SyncPullSecret():
                return await self._apply_in_skr(request, seen, step)
            case steps.AddFinalizer():
                written = await set_finalizers(kcp, KYMAS, metadata, (*metadata.finalizers, names.KYMA_FINALIZER))
                self.kymas.wrote(written)
                return seen.after(step, kyma=written)
            case steps.ChangeModules(changes):
                await self._change_modules(seen.kyma, changes)
                return seen.after(step)
            case steps.RemoveKymaFinalizer(of_others):
                removed = metadata.finalizers if of_others else (names.KYMA_FINALIZER, *former.KYMA_FINALIZERS)
                await remove_finalizers(kcp, self.kymas, metadata, *removed)
                return seen.after(step)
            case _:
                assert_never(step)

    async def finish(self, request: KymaRequest, seen: KymaSnapshot, end: steps.KymaDone) -> Result:
        """Remember what the next reconcile has to know, and write the status. Raises KubeError."""
        state = request.state
        state.repeats, state.pull_secret, state.progress_since = end.repeats, end.pull_secret, end.progress_since
        if end.status is not None:
            recorded = state.recorded
            await self._write_status(seen.kyma, end.status, recorded)
            if state.recorded is recorded:  # it is written, and holds no longer than that
                state.recorded = None
        return Result(end.requeue_after, end.reasons)

    async def report(self, key: ObjectKey, error: Exception) -> None:
        """Report an unforeseen exception. Raises KubeError."""
        kyma = self.kymas.get(key)
        if kyma is not None:
            status = internal_error_status(kyma, failure_of(error), self.manager.clock.now())
            if status != kyma.status:
                await self._write_status(kyma, status)

    async def _write_status(self, kyma: Kyma, status: KymaStatus, recorded: CatalogRecorded | None = None) -> None:
        events = for_operators(events_between(kyma.status, status))
        # Those of a former version, which has the same field manager, stay until their domain replaces them.
        own = tuple(each for each in status.conditions if each.type in OWN_CONDITIONS or former.is_of_a_part(each))
        catalog = (self.kymas.get(KYMAS.key_of(kyma)) or kyma).status.records.catalog
        if recorded is not None and recorded.before == catalog:
            catalog = recorded.record
        records = SkrRecords(kyma_crd=status.records.kyma_crd, catalog=catalog)
        status = msgspec.structs.replace(status, conditions=own, records=records)
        self.kymas.wrote(await write_status(self.manager.client, KYMAS, kyma.metadata, status))
        for kind, reason, note in events:
            self.manager.events.record(KYMAS, kyma, reason, note, type=kind)

    async def _apply_in_skr(self, request: KymaRequest, seen: KymaSnapshot, step: steps.SkrSteps) -> KymaSnapshot:
        skr = await request.shared("skr", lambda: self.connections.to(seen.kyma.metadata.name))
        inner = seen.skr.kyma if seen.skr is not None else None
        match step:
            case steps.ReadSkr(metadata_suffices):
                return self._seen(request, seen, step, await read_skr(skr, metadata_suffices=metadata_suffices))
            case steps.InstallCrd():
                objects = [KubernetesObject.of(document) for document in (NAMESPACE, seen.crd.document)]
                applied = await Applier(skr, field_manager=FIELD_MANAGER).apply(objects, (), prune=False)
                applied.raise_first_failure()
                return seen.after(step, installed_crd=seen.crd.digest)
            case steps.CreateKyma():
                return await self._create_kyma(skr, seen, step)
            case SyncPullSecret():
                await sync_pull_secret(skr, step)
                return seen.after(step, pull_secret=seen.pull_secret.written() if seen.pull_secret else None)
            case steps.SyncMetadata(labels, annotations):
                await _patch(skr, {"metadata": {"labels": dict(labels), "annotations": dict(annotations)}})
            case steps.WriteSkrStatus(status):
                await _patch(skr, {"status": {**NO_STATUS, **msgspec.to_builtins(status)}}, subresource="status")
                if inner is not None:
                    await self._record_in_skr(skr, inner, events_between(inner.status, status))
            case steps.RemoveSkrFinalizer():
                await release_in_skr(skr, inner)
            case _:
                await remove_in_skr(skr, inner, step)
        return seen.after(step)

    async def _record_in_skr(self, skr: Client, kyma: Kyma, events: Iterable[KymaEvent]) -> None:
        """Write Events at once: the recorder's queue is for KCP, not for thousands of SKRs."""
        for kind, reason, note in events:
            await self.manager.events.write_to(skr, KYMAS, kyma, reason, note, type=kind)

    def _seen(self, request: KymaRequest, seen: KymaSnapshot, step: steps.ReadSkr, view: SkrView) -> KymaSnapshot:
        """Return the snapshot with the Kyma CR that was read, and whose it is; without one there is no other object."""
        metadata = view.kyma.metadata if view.kyma is not None else None
        claimant = self._claimant(seen.kyma, metadata.annotations if metadata is not None else {})
        shown = ObservedObject()
        if metadata is not None:
            shown = ObservedObject(metadata.uid, metadata.resource_version or "", metadata.being_deleted)
        announced, now = request.state.announcements, self.manager.clock.monotonic()
        unseen = announced.settle(dict.fromkeys(announced.of(), shown), now=now)
        view = SkrView(view.kyma, view.is_readable, claimant, unseen)
        secret = seen.pull_secret
        if secret is not None and metadata is None:
            secret = replace(secret, copy=PullSecretCopy())
        return seen.after(step, skr=view, pull_secret=secret)

    def _claimant(self, kyma: Kyma, annotations: Mapping[str, str]) -> str:
        """Return the Kyma to which an SKR belongs by the annotations of its Kyma CR, empty where it is free.

        That is another Kyma whose Secret leads there; users can't forge both.
        """
        owner = annotations.get(names.OWNED_BY) or annotations.get(names.DEPRECATED_OWNED_BY, "")
        namespace, _, name = owner.partition("/")
        if name == kyma.metadata.name or self.kymas.get(ObjectKey(namespace, name)) is None:
            return ""
        return name if self.connections.lead_to_the_same_cluster(kyma.metadata.name, name) else ""

    async def _create_kyma(self, skr: Client, seen: KymaSnapshot, step: steps.CreateKyma) -> KymaSnapshot:
        document = {
            "apiVersion": KYMAS.api_version,
            "kind": KYMAS.kind,
            "metadata": {
                "name": names.DEFAULT_KYMA_NAME,
                "namespace": names.SKR_NAMESPACE,
                "labels": dict(step.labels),
                "annotations": dict(step.annotations),
            },
            "spec": {"modules": [], **msgspec.to_builtins(step.spec)},  # a list to which a JSON patch can add
        }
        try:
            created = await skr.create(KYMAS, document, names.SKR_NAMESPACE, field_manager=FIELD_MANAGER)
        except AlreadyExists:  # a user was faster, and the spec belongs to the users
            return seen.after(step)
        if step.is_replaced:
            self.manager.publish(ClusterReplaced(seen.kyma.metadata.name))
        return seen.after(step, skr=SkrView(created))

    async def _change_modules(self, kyma: Kyma, changes: Iterable[steps.ModuleChange]) -> None:
        """Make each change, whether KCP refuses others or not. Raises a group of what it refused."""
        refusals = []
        for change in changes:
            try:
                await self._change_module(kyma, change)
            except ApiError as error:
                refusals.append(error)
                self.manager.events.record(KYMAS, kyma, MODULE_NOT_WRITTEN, str(error), type="Warning")
        if refusals:
            raise ExceptionGroup("modules could not be changed", refusals)

    async def _change_module(self, kyma: Kyma, change: steps.ModuleChange) -> None:
        kcp, namespace = self.manager.client, kyma.metadata.namespace
        match change:
            case steps.ApplyManifest(manifest, managed_again):
                if managed_again:
                    await self._annotate(manifest.metadata.name, namespace, {names.IS_UNMANAGED: None})
                await apply_manifest(kcp, self.manifests, manifest)
            case steps.UpdateTerminatingManifest(manifest):
                with suppress(Conflict):  # gone: the API server finds no object with its uid
                    await apply_manifest(kcp, self.manifests, manifest)
            case steps.MarkUnmanaged(name):
                await self._annotate(name, namespace, {names.IS_UNMANAGED: "true"})
            case steps.DeleteManifest(name):
                if change.marks:
                    with suppress(NotFound):
                        await self._annotate(name, namespace, change.marks)
                await delete_manifest(kcp, name, namespace)
            case steps.DeleteSyncResource(resource):
                with suppress(NotFound):  # deleted meanwhile
                    await kcp.delete(SYNC_RESOURCES, resource.metadata.name, resource.metadata.namespace)
            case _:
                assert_never(change)

    async def _annotate(self, manifest: str, namespace: str, annotations: dict[str, str | None]) -> None:
        patch = {"metadata": {"annotations": annotations}}
        client = self.manager.client
        answer = await client.merge_patch(MANIFESTS, manifest, patch, namespace, field_manager=FIELD_MANAGER)
        self.manifests.wrote(answer)


async def _patch(skr: Client, content: dict[str, Any], *, subresource: str | None = None) -> None:
    """Change the Kyma CR by a merge patch: an apply would leave what users have added to a list or a map."""
    await skr.merge_patch(
        RAW_KYMAS,
        names.DEFAULT_KYMA_NAME,
        content,
        names.SKR_NAMESPACE,
        field_manager=FIELD_MANAGER,
        subresource=subresource,
    )
