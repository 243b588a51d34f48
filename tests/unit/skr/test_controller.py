"""SKRs that do not answer are probed until they do; that, and new credentials, are published."""

from contextlib import aclosing, nullcontext
from typing import Any

import pytest

from kube_runtime import ClusterUnreachable, Manager, ResponseInvalid
from kube_runtime.leases.lease import LeaseLost
from kube_runtime.sharding import Alone
from kube_simulation import Drop
from lifecycle_manager.contract.resources import SECRETS
from lifecycle_manager.contract.signals import ClusterReachable, ClusterReplaced, ClusterSilent
from lifecycle_manager.options.clusters import SkrSettings
from lifecycle_manager.skr import controller as skr
from lifecycle_manager.skr.access import SkrUnreachable
from lifecycle_manager_api import names
from tests.kinds import CONFIG_MAPS
from tests.waiting import eventually
from tests.world import KCP, World


class LostLease(Alone):
    def check(self) -> None:
        raise LeaseLost("test")


class WithoutSecond(Alone):
    def owns(self, owner: str) -> bool:
        return owner != "second"


def published_in(world: World, signal: type[Any]) -> list[str]:
    """Return the names of the Kymas for which a signal is published from now on."""
    published: list[str] = []
    world.manager.on(signal, lambda each: published.append(each.kyma))
    return published


async def test_cluster_that_answers_a_probe_is_published_as_reachable(world: World) -> None:
    await world.register()
    reachable = published_in(world, ClusterReachable)
    await world.turn("skr-probe", "demo")
    assert reachable == ["demo"]


async def test_cluster_that_does_not_answer_a_probe_is_probed_again(world: World) -> None:
    await world.register()
    reachable = published_in(world, ClusterReachable)
    with world.cluster("demo").ruled_by(Drop()), pytest.raises(ClusterUnreachable):
        await world.turn("skr-probe", "demo")
    assert reachable == []


async def test_cluster_without_credentials_is_not_probed_again(world: World) -> None:
    assert (await world.turn("skr-probe", "unknown")).requeue_after is None


async def test_silence_enqueues_a_probe_unless_the_cluster_is_probed_already(world: World) -> None:
    probe = world.manager.controllers["skr-probe"]
    assert world.manager.publish(ClusterSilent("demo")) == 1
    probe.queue.add_rate_limited("demo")
    assert world.manager.publish(ClusterSilent("demo")) == 0


async def test_failed_request_is_published_as_silence(world: World) -> None:
    await world.register()
    silent = published_in(world, ClusterSilent)
    connections = skr.connections_of(world.manager, SkrSettings(allow_insecure_kubeconfigs=True))
    await world.sync_caches()
    with world.cluster("demo").ruled_by(Drop()), pytest.raises(ClusterUnreachable):
        async with connections.to("demo") as client:
            await client.list(SECRETS, KCP)
    assert silent == ["demo"]
    with pytest.raises(SkrUnreachable):
        async with connections.to("demo"):
            raise AssertionError("a silent cluster must get no request")
    assert silent == ["demo", "demo"]
    await connections.close()


async def test_object_that_a_cluster_shows_in_a_watch_is_no_larger_than_etcd_stores(world: World) -> None:
    await world.register()
    connections = skr.connections_of(world.manager, SkrSettings(allow_insecure_kubeconfigs=True))
    await world.sync_caches()
    cluster = world.cluster("demo")
    async with connections.to("demo") as client:
        for size, is_shown in ((1_500_000, True), (3_000_000, False)):
            metadata = {"name": f"map-{size}", "namespace": "default"}
            cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b" * size}})
            async with aclosing(
                client.watch(CONFIG_MAPS, "default", field_selector=f"metadata.name=map-{size}")
            ) as seen:
                with nullcontext() if is_shown else pytest.raises(ResponseInvalid, match="longer than 2097152 bytes"):
                    assert (await anext(seen)).object is not None
    await connections.close()


async def test_replica_that_lost_its_lease_writes_to_no_cluster(world: World) -> None:
    await world.register()
    manager = Manager(world.kcp, sharding=LostLease(), namespace=KCP)
    connections = skr.connections_of(manager, SkrSettings(allow_insecure_kubeconfigs=True))
    async with manager.background():
        await manager.wait_synced()
        async with connections.to("demo") as client:
            await client.list(SECRETS, KCP)
            with pytest.raises(LeaseLost):
                await client.create(SECRETS, {"metadata": {"name": "any"}}, KCP, field_manager="test")
    await connections.close()
    assert world.writes_to("demo") == []


async def test_changed_access_secret_is_published_for_its_kyma_alone(world: World) -> None:
    await world.register("first")
    await world.register("second")
    async with world.running():
        await eventually(lambda: world.manager.working)
        reachable = published_in(world, ClusterReachable)
        await world.move("other", "second")
        await eventually(lambda: reachable)
        labels = {names.MANAGED_BY: names.LIFECYCLE_MANAGER, names.KYMA_NAME: "first", names.PURPOSE: "other"}
        secret = {"metadata": {"name": "certificate", "labels": labels}}
        await world.kcp.create(SECRETS, secret, KCP, field_manager="test")
        await world.kcp.delete(SECRETS, "kubeconfig-second", KCP)
        await eventually(lambda: len(reachable) == 2)
        assert set(reachable) == {"second"}


async def test_label_or_annotation_of_an_access_secret_has_nothing_read_again(world: World) -> None:
    await world.register("first")
    await world.register("second")
    async with world.running():
        await eventually(lambda: world.manager.working)
        reachable = published_in(world, ClusterReachable)
        patch = {"metadata": {"annotations": {"note": "by an operator"}, "labels": {"team": "a"}}}
        await world.kcp.merge_patch(SECRETS, "kubeconfig-first", patch, KCP)
        await world.kcp.merge_patch(SECRETS, "kubeconfig-second", {"data": {"other": "eA=="}}, KCP)
        await eventually(lambda: reachable)
        assert reachable == ["second"]


async def test_access_to_another_cluster_is_published_by_the_replica_that_has_the_kyma(world: World) -> None:
    await world.register("first")
    await world.register("second")
    manager = Manager(world.kcp, sharding=WithoutSecond(), namespace=KCP)
    connections = skr.connections_of(manager, SkrSettings(allow_insecure_kubeconfigs=True))
    skr.setup(manager, connections)
    published: list[Any] = []
    for signal in (ClusterReachable, ClusterReplaced):
        manager.on(signal, published.append)
    async with manager.background():
        await manager.start()
        await world.move("other", "second")
        await world.move("other", "first")
        await eventually(lambda: published)
        await world.kcp.merge_patch(SECRETS, "kubeconfig-first", {"data": {"other": "eA=="}}, KCP)
        await eventually(lambda: len(published) == 3)
    await connections.close()
    assert published == [ClusterReplaced("first"), ClusterReachable("first"), ClusterReachable("first")]
