"""Carries out the steps in an SKR whose Kyma is being deleted, each idempotent."""

from contextlib import suppress
from typing import assert_never

from kube_runtime import Client, NotFound
from lifecycle_manager.contract.resources import CUSTOM_RESOURCE_DEFINITIONS, FIELD_MANAGER, KYMAS, RAW_KYMAS, SECRETS
from lifecycle_manager.contract.writes import finalizers_of
from lifecycle_manager.kyma.deletion.purge import purge_finalizers
from lifecycle_manager.kyma.steps import DeleteKyma, DeletePullSecret, PurgeFinalizers, RemoveCrd
from lifecycle_manager_api import Kyma, names

KYMA = (names.DEFAULT_KYMA_NAME, names.SKR_NAMESPACE)


async def remove_in_skr(
    skr: Client, kyma: Kyma | None, step: PurgeFinalizers | DeleteKyma | DeletePullSecret | RemoveCrd
) -> None:
    """Carry a step out, `kyma` being the Kyma CR in the SKR. Raises KubeError."""
    match step:
        case PurgeFinalizers(owners):
            await purge_finalizers(skr, owners)
        case DeleteKyma(purge):
            await remove_finalizers(skr, kyma, of_others=purge)
            with suppress(NotFound):  # a user was faster
                await skr.delete(KYMAS, *KYMA)
        case DeletePullSecret(name):
            with suppress(NotFound):  # a user was faster
                await skr.delete(SECRETS, name, names.SKR_NAMESPACE)
        case RemoveCrd():
            with suppress(NotFound):  # deleted before, or never created
                if not await skr.list_revisions(KYMAS):  # those would be users' own
                    await skr.delete(CUSTOM_RESOURCE_DEFINITIONS, KYMAS.plural_name)
        case _:
            assert_never(step)


async def remove_finalizers(skr: Client, kyma: Kyma | None, *, of_others: bool = False) -> None:
    """Remove finalizers from the Kyma CR. Other versions of Lifecycle Manager set one of their own there."""
    finalizers = kyma.metadata.finalizers if kyma is not None else ()
    left = [] if of_others else [name for name in finalizers if name != names.KYMA_FINALIZER]
    if kyma is not None and len(left) != len(finalizers):
        patch = {"metadata": finalizers_of(kyma.metadata, left)}
        with suppress(NotFound):  # deleted meanwhile
            await skr.merge_patch(RAW_KYMAS, KYMA[0], patch, KYMA[1], field_manager=FIELD_MANAGER)
