"""Carries out the steps in an SKR whose Kyma is being deleted, each idempotent."""

from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from typing import assert_never

from kube_runtime import Client, JsonObject, NotFound, Resource, find_object, read_kind
from kube_runtime.finalizers import remove_finalizers
from lifecycle_manager.contract.resources import CUSTOM_RESOURCE_DEFINITIONS, FIELD_MANAGER, KYMAS, RAW_KYMAS, SECRETS
from lifecycle_manager.kyma.steps import DeleteKyma, DeletePullSecret, PurgeFinalizers, RemoveCrd
from lifecycle_manager.object_set.inventory import own_inventory
from lifecycle_manager.skr.finalizers import is_held, strip_finalizers
from lifecycle_manager_api import Kyma, Manifest, SyncResource, names

KYMA = (names.DEFAULT_KYMA_NAME, names.SKR_NAMESPACE)


async def remove_in_skr(
    skr: Client, kyma: Kyma | None, step: PurgeFinalizers | DeleteKyma | DeletePullSecret | RemoveCrd
) -> None:
    """Carry a step out, `kyma` being the Kyma CR in the SKR. Raises KubeError."""
    match step:
        case PurgeFinalizers(owners):
            await purge_finalizers(skr, owners)
        case DeleteKyma(purge):
            await release_in_skr(skr, kyma, of_others=purge)
            with suppress(NotFound):  # a user was faster
                await skr.delete(KYMAS, *KYMA)
        case DeletePullSecret(name):
            with suppress(NotFound):  # a user was faster
                await skr.delete(SECRETS, name, names.SKR_NAMESPACE)
        case RemoveCrd():
            left = await read_kind(skr, KYMAS.api_version, KYMAS.kind, skr.list_revisions)
            if left is None or left:  # it was deleted before, or never created; or there are users' own
                return
            with suppress(NotFound):  # a user was faster
                await skr.delete(CUSTOM_RESOURCE_DEFINITIONS, KYMAS.plural_name)
        case _:
            assert_never(step)


async def release_in_skr(skr: Client, kyma: Kyma | None, *, of_others: bool = False) -> None:
    """Remove finalizers from the Kyma CR. Other versions of Lifecycle Manager set one of their own there."""
    if kyma is not None:
        removed = kyma.metadata.finalizers if of_others else (names.KYMA_FINALIZER,)
        await remove_finalizers(skr, RAW_KYMAS, kyma.metadata, *removed, field_manager=FIELD_MANAGER)


async def purge_finalizers(skr: Client, owners: Iterable[Manifest | SyncResource]) -> None:
    """Remove finalizers from objects of a module that no controller cleans up any more. Raises KubeError.

    Only objects that are being deleted are changed: those in inventories that did not exist before, those of the kinds
    whose CRDs are among these, and those of the kind of the default Module CR.
    """
    for owner in owners:
        await _purge_inventory(skr, owner)
        async for resource in _kinds_of(skr, owner):
            for item in (await skr.list(resource)).items:
                if is_held(item):
                    await strip_finalizers(skr, resource, item, owner)


async def _purge_inventory(skr: Client, owner: Manifest | SyncResource) -> None:
    for entry in own_inventory(owner):
        if (found := await find_object(skr, entry)) is not None and is_held(found.live):
            await strip_finalizers(skr, found.resource, found.live, owner)


async def _kinds_of(skr: Client, owner: Manifest | SyncResource) -> AsyncIterator[Resource[JsonObject]]:
    """Return the kinds that a Manifest's module defines."""
    if not isinstance(owner, Manifest):
        return
    for entry in own_inventory(owner):
        if entry.kind == CUSTOM_RESOURCE_DEFINITIONS.kind:
            try:
                crd = await skr.get(CUSTOM_RESOURCE_DEFINITIONS, entry.name)
            except NotFound:
                continue
            spec = crd["spec"]
            version = next((each["name"] for each in spec["versions"] if each["served"]), None)
            if version is None:
                continue
            group, kind = spec["group"], spec["names"]["kind"]
            yield Resource.dynamic(group, version, kind, spec["names"]["plural"], spec["scope"] == "Namespaced")
