"""The writes of a Kyma, in KCP and in its SKR."""

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
    Informer,
    Invalid,
    JsonObject,
    KubernetesObject,
    Manager,
    NotFound,
)
from kube_runtime.apply.field_sets import entries_of, fields_of, ownership_patch
from kube_runtime.apply.refusals import immutable_fields
from kube_runtime.finalizers import remove_finalizers as remove_finalizers_of
from lifecycle_manager.contract.former import is_former
from lifecycle_manager.contract.resources import (
    FIELD_MANAGER,
    KYMAS,
    MANIFESTS,
    RAW_KYMAS,
    SECRETS,
    SYNC_RESOURCES,
)
from lifecycle_manager.contract.signals import ClusterReplaced
from lifecycle_manager.contract.writes import remove_finalizers, set_finalizers, write_each, write_status
from lifecycle_manager.kyma.crd import KymaCrd
from lifecycle_manager.kyma.events import events_between, for_operators
from lifecycle_manager.kyma.pull_secret import PullSecret, copy_for_skr
from lifecycle_manager.kyma.reasons import KYMA_CREATED_AGAIN, MODULE_NOT_WRITTEN
from lifecycle_manager.kyma.rules import Correction, visible_metadata
from lifecycle_manager.kyma.status import OWN_CONDITIONS
from lifecycle_manager.kyma.wanted import (
    ApplyManifest,
    DeleteManifest,
    DeleteSyncResource,
    MarkUnmanaged,
    ModuleChange,
    UpdateTerminatingManifest,
)
from lifecycle_manager.module_catalog.writing import apply_manifest, delete_manifest
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
CREATED_AGAIN = (
    "the cluster had no Kyma CR any more: it was created again with the default modules; "
    "others are removed until they are chosen again"
)
METADATA = "f:metadata"
NO_STATUS: dict[str, None] = dict.fromkeys(KymaStatus.__struct_encode_fields__)


@dataclass(frozen=True, eq=False)
class KymaWrites:
    """Writes Kymas and their modules, each write idempotent. The informers learn what was written."""

    manager: Manager
    kymas: Informer[Kyma]
    manifests: Informer[Manifest]

    async def add_finalizer(self, kyma: Kyma) -> Kyma:
        """Keep the Kyma until its SKR is cleaned up. Raises KubeError."""
        finalizers = (*kyma.metadata.finalizers, names.KYMA_FINALIZER)
        written = await set_finalizers(self.manager.client, KYMAS, kyma.metadata, finalizers)
        self.kymas.wrote(written)
        return written

    async def remove_finalizers(self, kyma: Kyma, *finalizers: str) -> None:
        """Release the Kyma. Raises KubeError."""
        await remove_finalizers(self.manager.client, self.kymas, kyma.metadata, *finalizers)

    async def write_status(self, kyma: Kyma, status: KymaStatus) -> None:
        """Write the status in KCP, with Events of what changed."""
        events = for_operators(events_between(kyma.status, status))
        # Those of a former version, which has the same field manager, stay until their domain replaces them.
        own = tuple(each for each in status.conditions if each.type in OWN_CONDITIONS or is_former(each))
        records = SkrRecords(kyma_crd=status.records.kyma_crd)
        status = msgspec.structs.replace(status, conditions=own, records=records)
        self.kymas.wrote(await write_status(self.manager.client, KYMAS, kyma.metadata, status))
        for kind, reason, note in events:
            self.manager.events.record(KYMAS, kyma, reason, note, type=kind)

    async def install_crd(self, skr: Client, crd: KymaCrd) -> None:
        """Apply namespace and CRD in the SKR, and wait until the API server there serves it. Raises KubeError."""
        objects = [KubernetesObject.of(document) for document in (NAMESPACE, crd.document)]
        applied = await Applier(skr, field_manager=FIELD_MANAGER).apply(objects, (), prune=False)
        applied.raise_first_failure()

    async def create_kyma(self, skr: Client, kyma: Kyma, *, is_replaced: bool) -> Kyma | None:
        """Create the Kyma CR in the SKR; return None where a user was faster: the spec belongs to the users.

        Nobody owns it, or a server-side apply by users would conflict, and keep modules that they leave out later. With
        `is_replaced` other domains are notified, and Events say so. Raises KubeError.
        """
        labels, annotations = visible_metadata(kyma)
        document = {
            "apiVersion": KYMAS.api_version,
            "kind": KYMAS.kind,
            "metadata": {
                "name": names.DEFAULT_KYMA_NAME,
                "namespace": names.SKR_NAMESPACE,
                "labels": labels,
                "annotations": annotations,
            },
            # with a list to which a JSON patch can add
            "spec": {"modules": [], **msgspec.to_builtins(kyma.spec)},
        }
        try:
            created = await skr.create(RAW_KYMAS, document, names.SKR_NAMESPACE, field_manager=FIELD_MANAGER)
        except AlreadyExists:
            return None
        if is_replaced:
            events = self.manager.events
            self.manager.publish(ClusterReplaced(kyma.metadata.name))
            events.record(KYMAS, kyma, KYMA_CREATED_AGAIN, CREATED_AGAIN, type="Warning")
            await events.write_to(skr, RAW_KYMAS, created, KYMA_CREATED_AGAIN, CREATED_AGAIN, type="Warning")
        owned = ((each, fields_of(each).get(METADATA)) for each in entries_of(created))
        patch = ownership_patch(created, [{**each, "fieldsV1": {METADATA: left}} for each, left in owned if left])
        try:
            return await skr.merge_patch(
                KYMAS, names.DEFAULT_KYMA_NAME, patch, names.SKR_NAMESPACE, field_manager=FIELD_MANAGER
            )
        except Conflict:  # a user has changed it
            return None

    async def copy_pull_secret(self, skr: Client, known: PullSecret) -> PullSecret:
        """Write the copy where it is due; that the SKR refuses it concerns nothing else. Raises KubeError."""
        if known.secret is None or not known.is_due:
            return known
        document, namespace = copy_for_skr(known.secret), names.SKR_NAMESPACE
        try:
            try:
                await skr.apply(SECRETS, known.name, document, namespace, field_manager=FIELD_MANAGER)
            except Invalid as refusal:
                if not immutable_fields(refusal):  # of another type, or somebody made it immutable
                    raise
                await skr.delete(SECRETS, known.name, namespace)
                await skr.apply(SECRETS, known.name, document, namespace, field_manager=FIELD_MANAGER)
        except ApiError as error:
            return known.refused(error)
        return known.written()

    async def release_skr_kyma(self, skr: Client, inner: Kyma, *, of_others: bool = False) -> None:
        """Remove finalizers from the Kyma CR. Other versions of Lifecycle Manager set one of their own there."""
        removed = inner.metadata.finalizers if of_others else (names.KYMA_FINALIZER,)
        await remove_finalizers_of(skr, RAW_KYMAS, inner.metadata, *removed, field_manager=FIELD_MANAGER)

    async def correct(self, skr: Client, correction: Correction) -> None:
        """Set the labels and annotations of the Kyma CR in the SKR that KCP owns. Raises KubeError."""
        labels, annotations = correction
        await _patch(skr, {"metadata": {"labels": dict(labels), "annotations": dict(annotations)}})

    async def write_skr_status(self, skr: Client, inner: Kyma | None, status: KymaStatus) -> None:
        """Write the status of the Kyma CR in the SKR, and record there as Events what changed. Raises KubeError.

        Events are written at once: the recorder's queue is for KCP, not for thousands of SKRs.
        """
        await _patch(skr, {"status": {**NO_STATUS, **msgspec.to_builtins(status)}}, subresource="status")
        if inner is not None:
            for kind, reason, note in events_between(inner.status, status):
                await self.manager.events.write_to(skr, KYMAS, inner, reason, note, type=kind)

    async def change_modules(self, kyma: Kyma, changes: Iterable[ModuleChange]) -> None:
        """Make each change, whether KCP refuses others or not. Raises KubeError."""

        def report(error: ApiError) -> None:
            self.manager.events.record(KYMAS, kyma, MODULE_NOT_WRITTEN, str(error), type="Warning")

        await write_each((self._change_module(kyma, each) for each in changes), report)

    async def _change_module(self, kyma: Kyma, change: ModuleChange) -> None:
        kcp, namespace = self.manager.client, kyma.metadata.namespace
        match change:
            case ApplyManifest(manifest):
                await apply_manifest(kcp, self.manifests, manifest)
            case UpdateTerminatingManifest(manifest):
                with suppress(Conflict):  # gone: the API server finds no object with its uid
                    await apply_manifest(kcp, self.manifests, manifest)
            case MarkUnmanaged(name, is_unmanaged):
                patch = {"metadata": {"annotations": {names.IS_UNMANAGED: "true" if is_unmanaged else None}}}
                answer = await kcp.merge_patch(MANIFESTS, name, patch, namespace, field_manager=FIELD_MANAGER)
                self.manifests.wrote(answer)
            case DeleteManifest(name):
                await delete_manifest(kcp, name, namespace, change.marks)
            case DeleteSyncResource(resource):
                with suppress(NotFound):  # deleted meanwhile
                    await kcp.delete(SYNC_RESOURCES, resource.metadata.name, resource.metadata.namespace)
            case _:
                assert_never(change)


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
