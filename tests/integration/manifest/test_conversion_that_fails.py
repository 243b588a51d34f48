"""A module is upgraded or removed while nobody serves the conversion webhook of its kind."""

from contextlib import suppress
from functools import partial

import pytest

from kube_runtime import ApiError, Client, NotFound, ServerUnavailable
from lifecycle_manager_api import names
from tests.kinds import CONFIG_MAPS, CRDS, crd_of
from tests.manifest_clusters import Modules
from tests.modules import Document, config_map
from tests.waiting import eventually, is_gone

GROUP = "conversion.example.com"
SKR = names.SKR_NAMESPACE


def crd(storage: str) -> Document:
    """Return a CRD with two versions, of which one is stored."""
    config = {"service": {"name": "nobody", "namespace": SKR}}
    webhook = {"conversionReviewVersions": ["v1"], "clientConfig": config}
    made = crd_of(GROUP, "Rose", "v1", "v2", stored=storage)
    return {**made, "spec": {**made["spec"], "conversion": {"strategy": "Webhook", "webhook": webhook}}}


async def stored_in_another_version(client: Client) -> None:
    """Have an object stored in v1 while v2 is the stored one."""
    rose = await client.mapper.resource(f"{GROUP}/v1", "Rose")
    await client.create(rose, {"metadata": {"name": "mine"}, "spec": {}}, SKR, field_manager="user")


async def test_new_version_that_may_serve_the_conversion_is_applied_without_what_needs_it(world: Modules) -> None:
    def objects(api_version: str, operator: str) -> list[Document]:
        metadata = {"name": "of-the-module", "namespace": SKR}
        rose = {"apiVersion": f"{GROUP}/{api_version}", "kind": "Rose", "metadata": metadata, "spec": {}}
        return [crd(api_version), rose, config_map("operator", SKR, version=operator)]

    await world.want(objects("v1", "1"))
    await world.reconcile()
    for version_of_operator in ("2", "3"):
        await world.want(objects("v2", version_of_operator))
        with pytest.raises(ServerUnavailable):
            await world.reconcile()
        assert (await world.skr.get(CONFIG_MAPS, "operator", SKR))["data"] == {"version": version_of_operator}
        assert await world.state() == ("Error", "ApplyFailed")
        assert f"the conversion webhook of the CRD of Rose ({GROUP}) fails" in (await world.condition()).message

    await world.skr.merge_patch(CRDS, f"roses.{GROUP}", {"spec": {"conversion": {"strategy": "None", "webhook": None}}})
    await world.want([crd("v2") | {"spec": {**crd("v2")["spec"], "conversion": {"strategy": "None"}}}])
    await world.reconcile_until(("Ready", "ModuleReady"))
    await world.delete()
    await world.reconcile_until_gone()
    assert await is_gone(world.skr.get(CRDS, f"roses.{GROUP}"))


async def waits_for_users(world: Modules) -> bool:
    with suppress(ApiError):
        await world.reconcile()
    return await world.state() == ("Deleting", "ModuleCRsInUse")


async def test_removal_says_which_conversion_fails_and_goes_on_when_it_is_served_again(world: Modules) -> None:
    await world.want([crd("v1")])
    await world.reconcile()
    await stored_in_another_version(world.skr)
    await world.want([crd("v2")])
    await world.reconcile()
    await world.delete()
    with pytest.raises(ServerUnavailable):
        await world.reconcile()

    message = (await world.condition()).message
    assert message.startswith(f"the conversion webhook of the CRD of Rose ({GROUP}) fails, so no object of that kind ")
    assert await world.state() == ("Deleting", "SKRConversionFailed")

    await world.want([crd("v2"), config_map("operator", SKR, version="2")])
    with pytest.raises(ServerUnavailable):
        await world.reconcile()
    assert (await world.skr.get(CONFIG_MAPS, "operator", SKR))["data"] == {"version": "2"}
    assert await world.state() == ("Deleting", "SKRConversionFailed")

    served = {"spec": {"conversion": {"strategy": "None", "webhook": None}}}
    await world.skr.merge_patch(CRDS, f"roses.{GROUP}", served)
    await eventually(partial(waits_for_users, world), within=60)
    await world.skr.delete(await world.skr.mapper.resource(f"{GROUP}/v2", "Rose"), "mine", SKR)
    await world.reconcile_until_gone()
    with pytest.raises(NotFound):
        await world.skr.get(CRDS, f"roses.{GROUP}")
