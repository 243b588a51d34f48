"""Carries out what was planned for a Kyma: idempotent, by server-side apply where there is more than one writer."""

from collections.abc import Iterable
from typing import Any, assert_never

import msgspec

from kube_runtime import AlreadyExists, Applier, Client, NotFound, parse_objects
from lifecycle_manager.kyma import plan as planned
from lifecycle_manager.kyma.status import OWN_CONDITIONS, for_skr
from lifecycle_manager.resources import FIELD_MANAGER, KYMAS
from lifecycle_manager_api import Kyma, KymaStatus, names


async def act_in_skr(
    skr: Client, skr_kyma: Kyma | None, actions: Iterable[planned.SkrAction], kyma_crd_text: str
) -> None:
    """Carry out the actions in the user cluster, in their order. Raises KubeError at the first that fails."""
    for action in actions:
        match action:
            case planned.InstallKymaCrd():
                await _install_crd(skr, kyma_crd_text)
            case planned.CreateSkrKyma():
                await _create_skr_kyma(skr, action)
            case planned.SyncSkrMetadata(labels, annotations):
                metadata = {"labels": dict(labels), "annotations": dict(annotations)}
                await _apply_skr_kyma(skr, {"metadata": metadata}, subresource=None)
            case planned.WriteSkrStatus(status):
                assert skr_kyma is not None  # noqa: S101 - only planned for a Kyma CR that was read
                shown = msgspec.to_builtins(for_skr(status, skr_kyma))
                await _apply_skr_kyma(skr, {"status": shown}, subresource="status")
            case planned.DeleteSkrKyma():
                await _delete_skr_kyma(skr)
            case _:
                assert_never(action)


async def act_in_kcp(kcp: Client, kyma: Kyma, actions: Iterable[planned.KcpAction]) -> None:
    """Carry out the actions in the control plane, in their order. Raises KubeError at the first that fails."""
    for action in actions:
        match action:
            case planned.AddFinalizer():
                await _set_finalizers(kcp, kyma, [*kyma.metadata.finalizers, names.KYMA_FINALIZER])
            case planned.RemoveFinalizer():
                left = [name for name in kyma.metadata.finalizers if name != names.KYMA_FINALIZER]
                await _set_finalizers(kcp, kyma, left)
            case planned.RecordCrdHash(crd_hash):
                await _patch(kcp, kyma, {"annotations": {planned.CRD_HASH: crd_hash}})
            case planned.WriteStatus(status):
                await _write_status(kcp, kyma, status)
            case _:
                assert_never(action)


async def _install_crd(skr: Client, kyma_crd_text: str) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": names.SKR_NAMESPACE}}
    objects = parse_objects(f"{kyma_crd_text}\n---\n{msgspec.json.encode(namespace).decode()}")
    applied = await Applier(skr, field_manager=FIELD_MANAGER).apply(objects, (), prune=False)
    applied.raise_first_failure()


async def _create_skr_kyma(skr: Client, action: planned.CreateSkrKyma) -> None:
    document = _skr_kyma(
        {
            "metadata": {"labels": dict(action.labels), "annotations": dict(action.annotations)},
            "spec": msgspec.to_builtins(action.spec),
        }
    )
    try:
        await skr.create(KYMAS, document, names.SKR_NAMESPACE, field_manager=FIELD_MANAGER)
    except AlreadyExists:
        return  # a user was faster, and the spec is theirs


async def _apply_skr_kyma(skr: Client, content: dict[str, Any], *, subresource: str | None) -> None:
    await skr.apply(
        KYMAS,
        names.DEFAULT_KYMA_NAME,
        _skr_kyma(content),
        names.SKR_NAMESPACE,
        field_manager=FIELD_MANAGER,
        subresource=subresource,
    )


async def _delete_skr_kyma(skr: Client) -> None:
    try:
        await skr.delete(KYMAS, names.DEFAULT_KYMA_NAME, names.SKR_NAMESPACE)
    except NotFound:
        return  # a user was faster


def _skr_kyma(content: dict[str, Any]) -> dict[str, Any]:
    identity = {"name": names.DEFAULT_KYMA_NAME, "namespace": names.SKR_NAMESPACE}
    return {
        "apiVersion": KYMAS.api_version,
        "kind": KYMAS.kind,
        **content,
        "metadata": {**content.get("metadata", {}), **identity},
    }


async def _set_finalizers(kcp: Client, kyma: Kyma, finalizers: list[str]) -> None:
    """Replace the finalizers, only if nobody else has written the Kyma since it was read."""
    await _patch(kcp, kyma, {"finalizers": finalizers, "resourceVersion": kyma.metadata.resource_version})


async def _patch(kcp: Client, kyma: Kyma, metadata: dict[str, Any]) -> None:
    patch = {"metadata": metadata}
    await kcp.merge_patch(KYMAS, kyma.metadata.name, patch, kyma.metadata.namespace, field_manager=FIELD_MANAGER)


async def _write_status(kcp: Client, kyma: Kyma, status: KymaStatus) -> None:
    own = tuple(condition for condition in status.conditions if condition.type in OWN_CONDITIONS)
    document = {
        "apiVersion": KYMAS.api_version,
        "kind": KYMAS.kind,
        "metadata": {"name": kyma.metadata.name, "namespace": kyma.metadata.namespace},
        "status": msgspec.to_builtins(msgspec.structs.replace(status, conditions=own)),
    }
    await kcp.apply(
        KYMAS,
        kyma.metadata.name,
        document,
        kyma.metadata.namespace,
        field_manager=FIELD_MANAGER,
        subresource="status",
    )
