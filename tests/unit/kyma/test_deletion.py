"""A Kyma that is being deleted, on simulated clusters: what it waits for, and what does not block it."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import msgspec
import pytest

from kube_runtime import KubeError, Result
from kube_simulation import Answer, ApiRequest, Drop, Freeze, Rule
from lifecycle_manager.contract.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    KYMAS,
    MANIFESTS,
    RAW_KYMAS,
    SECRETS,
    SYNC_RESOURCES,
)
from lifecycle_manager.kyma import Timeouts
from lifecycle_manager.options.clusters import BrakeSettings
from lifecycle_manager.options.shared import PurgeSettings
from lifecycle_manager_api import find, names
from tests import builders
from tests.waiting import is_gone
from tests.world import World, key_of, open_world

SKR = names.SKR_NAMESPACE


class Deletions(Rule):
    """Writes down what is deleted, and how."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []

    async def around(self, request: ApiRequest, proceed: Callable[[], Awaitable[Answer]]) -> Answer:
        if request.verb == "delete":
            options = msgspec.json.decode(request.body)
            self.seen.append((request.name, options["propagationPolicy"]))
        return await proceed()


async def test_modules_are_deleted_in_the_foreground_with_their_kyma(world: World) -> None:
    await world.register("demo", "cloud-resources")
    await world.offer(builders.template(installs=True), builders.release(regular="0.1.0"))
    await world.introduced()
    await world.kcp.delete(KYMAS, "demo", names.KCP_NAMESPACE)
    deletions = Deletions()
    with world.cluster("kcp").ruled_by(deletions):
        await world.reconcile()
    assert deletions.seen == [("demo-cloud-resources", "Foreground")]
    manifest = await world.kcp.get(MANIFESTS, "demo-cloud-resources", names.KCP_NAMESPACE)
    assert manifest.metadata.deletion_timestamp is not None
    assert names.REMOVED_BY_USERS not in manifest.metadata.annotations
    assert (await world.in_skr()).status.state == "Deleting"


async def test_manifest_says_that_users_have_removed_its_module(world: World) -> None:
    await world.register("demo", "cloud-resources")
    await world.offer(builders.template(installs=True), builders.release(regular="0.1.0"))
    await world.introduced()
    held = {"metadata": {"finalizers": [names.MANIFEST_FINALIZER]}}
    await world.kcp.merge_patch(MANIFESTS, "demo-cloud-resources", held, names.KCP_NAMESPACE)
    skr = await world.skr()
    await skr.merge_patch(KYMAS, names.DEFAULT_KYMA_NAME, {"spec": {"modules": []}}, names.SKR_NAMESPACE)
    await world.reconcile()
    manifest = await world.kcp.get(MANIFESTS, "demo-cloud-resources", names.KCP_NAMESPACE)
    assert manifest.metadata.being_deleted
    assert names.REMOVED_BY_USERS in manifest.metadata.annotations


async def test_kyma_whose_skr_does_not_answer_is_deleted_once_its_secret_is_gone(world: World) -> None:
    await world.register()
    await world.introduced()
    await world.kcp.delete(KYMAS, "demo", names.KCP_NAMESPACE)
    with world.cluster("demo").ruled_by(Drop()):
        for _ in range(2):
            with pytest.raises(KubeError):
                await world.reconcile()
        kyma = await world.in_kcp()
        assert (kyma.status.state, kyma.metadata.finalizers) == ("Deleting", (names.KYMA_FINALIZER,))
        assert kyma.status.last_operation is not None
        assert "can't be reached" in kyma.status.last_operation.operation
        world.clock.time += timedelta(days=10_000)
        with pytest.raises(KubeError):
            await world.reconcile()
        assert (await world.in_kcp()).status.state == "Warning"
        await world.kcp.delete(SECRETS, "kubeconfig-demo", names.KCP_NAMESPACE)
        await world.reconcile()
        held = find((await world.in_kcp()).status.conditions, "Ready")
        assert held is not None
        assert held.reason == "AccessSecretMissing"
        world.clock.advance(BrakeSettings().grace_seconds)
        await world.reconcile()
    assert await is_gone(world.in_kcp())


@pytest.mark.parametrize("purge", [None, timedelta(minutes=5)])
async def test_finalizer_of_others_on_the_kyma_cr_blocks_the_deletion_until_it_is_purged(
    purge: timedelta | None,
) -> None:
    async with open_world(
        timeouts=Timeouts(purging=PurgeSettings(enabled=purge is not None, timeout=purge or timedelta()))
    ) as world:
        await world.register()
        await world.introduced()
        await world.without_parts()
        held = {"metadata": {"finalizers": ["example.com/nobody-is-there", names.KYMA_FINALIZER]}}
        await (await world.skr()).merge_patch(KYMAS, "default", held, SKR, field_manager="user")
        await world.kcp.delete(KYMAS, "demo", names.KCP_NAMESPACE)
        await world.reconcile(times=3)
        inner, outer = await world.in_skr(), await world.in_kcp()
        assert inner.metadata.being_deleted
        assert inner.metadata.finalizers == ("example.com/nobody-is-there",)
        assert outer.status.last_operation is not None
        assert "Kyma kyma-system/default" in outer.status.last_operation.operation
        deleted_at = outer.metadata.deletion_timestamp
        assert deleted_at is not None
        world.clock.time = deleted_at + timedelta(minutes=5)
        await world.reconcile(times=2)
        assert await is_gone(world.in_kcp()) is (purge is not None)


async def test_kyma_cr_that_can_not_be_read_does_not_block_the_deletion(world: World) -> None:
    """Users who change the CRD can write what it would have refused."""
    await world.register()
    await world.introduced()
    await world.without_parts()
    skr = await world.skr()
    definition = await skr.get(CUSTOM_RESOURCE_DEFINITIONS, KYMAS.plural_name)
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    versions = [{**each, "schema": {"openAPIV3Schema": anything}} for each in definition["spec"]["versions"]]
    await skr.merge_patch(CUSTOM_RESOURCE_DEFINITIONS, KYMAS.plural_name, {"spec": {"versions": versions}})
    spoilt = {"metadata": {"finalizers": [names.KYMA_FINALIZER]}, "spec": {"modules": "none, please"}}
    await skr.merge_patch(RAW_KYMAS, "default", spoilt, SKR)
    await world.kcp.delete(KYMAS, "demo", names.KCP_NAMESPACE)
    await world.reconcile(times=3)
    assert await is_gone(world.in_kcp())
    assert await is_gone(skr.get(CUSTOM_RESOURCE_DEFINITIONS, KYMAS.plural_name))


async def test_finalizer_of_a_manager_delays_the_deletion_of_a_kyma_for_ten_minutes(world: World) -> None:
    await world.register()
    await world.introduced()
    await world.without_parts()
    others = "cloud-resources.example.com/busy"
    await world.create(builders.sync_resource())
    held = {"metadata": {"finalizers": [others, names.SYNC_RESOURCE_FINALIZER]}}
    await world.kcp.merge_patch(SYNC_RESOURCES, "demo-cloud-resources", held, names.KCP_NAMESPACE)
    await world.kcp.delete(KYMAS, "demo", names.KCP_NAMESPACE)
    await world.reconcile(times=3)
    deleted_at = (await world.in_kcp()).metadata.deletion_timestamp
    assert deleted_at is not None
    world.clock.time = deleted_at + timedelta(minutes=10)
    await world.reconcile(times=3)
    assert "the objects of module cloud-resources" in str((await world.in_kcp()).status.last_operation)
    await world.kcp.merge_patch(
        SYNC_RESOURCES, "demo-cloud-resources", {"metadata": {"finalizers": [others]}}, names.KCP_NAMESPACE
    )
    world.clock.time = deleted_at + timedelta(minutes=9)
    await world.reconcile(times=3)
    assert not await is_gone(world.in_kcp())
    world.clock.time = deleted_at + timedelta(minutes=10)
    await world.reconcile(times=3)
    assert await is_gone(world.in_kcp())


async def test_kyma_that_was_released_counts_as_gone_before_the_watch_shows_it(world: World) -> None:
    """Another trigger at that moment had the end of the deletion done, and counted, a second time."""
    await world.register()
    await world.introduced()
    await world.kcp.delete(KYMAS, "demo", names.KCP_NAMESPACE)
    await world.without_parts()
    await world.sync_caches()
    kcp, kyma = world.cluster("kcp"), world.manager.controllers["kyma"]
    with kcp.ruled_by(Freeze(kcp.version, lambda request: request.verb == "watch" and "/kymas" in request.path)):
        removing = await kyma.reconcile_now(key_of("demo"))
        assert "remote_kyma_deletion" in removing.reasons
        released = await kyma.reconcile_now(key_of("demo"))
        assert released.reasons == ("kyma_deletion",)
        assert await is_gone(world.in_kcp())
        before = world.requests
        assert await kyma.reconcile_now(key_of("demo")) == Result()
        assert world.requests == before
