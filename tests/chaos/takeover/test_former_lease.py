"""The Lease of the former version decides which version writes, also while a replica can't reach KCP."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import pytest
import pytest_asyncio

from kube_runtime import (
    ALONE,
    AlreadyExists,
    Client,
    ClientOptions,
    Controller,
    KubeconfigPolicy,
    Manager,
    NotFound,
    NotServed,
    Result,
)
from kube_runtime.leases.lease import LeaseLost, LeaseTiming
from kyma_takeover import lease
from kyma_takeover.lease import HOLDER, LEASE, LEASES, FormerVersionRuns, WholeFleet
from lifecycle_manager_api import names
from tests.chaos.proxy import Proxy
from tests.chaos.servers import Servers
from tests.kinds import CONFIG_MAPS, NAMESPACES
from tests.waiting import eventually, is_gone

KCP = names.KCP_NAMESPACE
TIMING = LeaseTiming(lease_seconds=4, act_seconds=2.0, renew_seconds=0.5)
OPTIONS = ClientOptions(qps=0, timeout_seconds=2, connect_timeout_seconds=2, watch_silence_seconds=1.0, attempts=1)
FORMER = "klm-controller-manager-7d9f_1f6f9a3e"
SECONDS = 0.02


@pytest_asyncio.fixture
async def kcp(servers: Servers) -> AsyncIterator[Client]:
    """A client whose requests nobody disturbs."""
    options = ClientOptions(qps=0, timeout_seconds=60)
    async with await Client.from_environment(servers.cluster.admin_kubeconfig, options=options) as client:
        with suppress(AlreadyExists):
            await client.create(NAMESPACES, {"metadata": {"name": KCP}}, field_manager="test")
        yield client
        with suppress(NotFound, NotServed):
            await client.delete(LEASES, LEASE, KCP)


@pytest_asyncio.fixture
async def proxy(servers: Servers) -> AsyncIterator[Proxy]:
    async with Proxy.start(servers.cluster.admin_kubeconfig) as running:
        yield running


async def hold(kcp: Client, holder: str, *, seconds: int = 3600) -> None:
    """Write the Lease as the former version does."""
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
    spec = {"holderIdentity": holder, "leaseDurationSeconds": seconds, "renewTime": now, "acquireTime": now}
    document = {"metadata": {"name": LEASE}, "spec": spec}
    await kcp.apply(LEASES, LEASE, document, KCP, field_manager="former")


async def read(kcp: Client) -> dict[str, Any]:
    spec: dict[str, Any] = (await kcp.get(LEASES, LEASE, KCP))["spec"]
    return spec


class Replica:
    """A replica of this version that reaches KCP by a proxy, and writes all the time to a cluster that it reaches."""

    def __init__(self, by_proxy: Client, cluster: Client, name: str) -> None:
        self.wrote_at: list[float] = []
        self.is_writing = False
        self._name = name
        self.manager = Manager(by_proxy, sharding=WholeFleet(ALONE), namespace=KCP)
        lease.setup(self.manager, by_proxy, TIMING)
        self._cluster = cluster.fenced_by(self.manager.sharding.check)
        controller: Controller[str, None] = self.manager.controller("writer")
        controller.starts_with(lambda: [name])
        controller.reconciles(self._write)

    async def _write(self, name: str, *_: Any) -> Result:
        document = {"metadata": {"name": name}, "data": {"writes": str(len(self.wrote_at))}}
        self.is_writing = True
        try:
            await self._cluster.apply(CONFIG_MAPS, name, document, "default", field_manager=name)
        finally:
            self.is_writing = False
        self.wrote_at.append(asyncio.get_running_loop().time())
        return Result(requeue_after=SECONDS)

    async def writes(self) -> None:
        """Wait until it writes from now on."""
        before = len(self.wrote_at)
        await eventually(lambda: len(self.wrote_at) > before + 3, what=f"{self._name} writes")

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None, None]:
        stopping = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(self.manager.run(stopping))
            yield
            stopping.set()
            await running


@asynccontextmanager
async def replica(proxy: Proxy, kcp: Client, name: str = "first") -> AsyncGenerator[Replica, None]:
    policy = KubeconfigPolicy.permissive()
    async with await Client.from_kubeconfig(proxy.kubeconfig(), options=OPTIONS, policy=policy) as client:
        yield Replica(client, kcp, name)


async def test_lease_is_held_once_the_former_version_has_given_it_up(kcp: Client, proxy: Proxy) -> None:
    await hold(kcp, FORMER)
    async with replica(proxy, kcp) as ours, ours.running():
        await eventually(lambda: any(LEASE in each.path for each in proxy.asked), what="the Lease is read")
        assert not ours.wrote_at
        await hold(kcp, "")
        await ours.writes()
        spec = await read(kcp)
        assert spec["holderIdentity"] == HOLDER
        assert spec["leaseDurationSeconds"] == TIMING.lease_seconds
        assert spec["leaseTransitions"] == 1

        async def is_renewed() -> bool:
            now = await read(kcp)
            return bool(now["renewTime"] > spec["renewTime"]) and now["acquireTime"] == spec["acquireTime"]

        await eventually(is_renewed, what="it is renewed")


async def test_no_lease_is_created_where_the_former_version_never_was(kcp: Client, proxy: Proxy) -> None:
    assert await is_gone(kcp.get(LEASES, LEASE, KCP))
    async with replica(proxy, kcp) as ours, ours.running():
        await ours.writes()
        assert await is_gone(kcp.get(LEASES, LEASE, KCP))


async def test_replicas_hold_the_lease_together(kcp: Client, proxy: Proxy) -> None:
    await hold(kcp, "")
    async with replica(proxy, kcp, "first") as first, replica(proxy, kcp, "second") as second, first.running():
        await first.writes()
        async with second.running():
            await second.writes()
            await first.writes()
            assert (await read(kcp))["leaseTransitions"] == 1
        await first.writes()
        assert (await read(kcp))["holderIdentity"] == HOLDER  # one that ends leaves it to the others


async def test_replica_that_can_not_renew_writes_nothing_until_it_can(kcp: Client, proxy: Proxy) -> None:
    await hold(kcp, "")
    clock = asyncio.get_running_loop().time
    async with replica(proxy, kcp) as ours, ours.running():
        await ours.writes()
        held = await read(kcp)
        await proxy.refuse()
        last_renewal = clock()
        await eventually(lambda: not ours.manager.sharding.owns("first"), what="it may not write")
        with pytest.raises(LeaseLost):
            ours.manager.sharding.check()
        assert (await read(kcp))["renewTime"] >= held["renewTime"]
        assert ours.wrote_at[-1] < last_renewal + TIMING.lease_seconds  # before others may take over
        await proxy.accept()
        await ours.writes()
        assert (await read(kcp))["holderIdentity"] == HOLDER


async def test_process_ends_where_the_former_version_took_the_lease_meanwhile(kcp: Client, proxy: Proxy) -> None:
    await hold(kcp, "")
    with pytest.RaisesGroup(FormerVersionRuns, flatten_subgroups=True):
        async with replica(proxy, kcp) as ours, ours.running():
            await ours.writes()
            await proxy.refuse()
            await eventually(lambda: not ours.manager.sharding.owns("first"), what="it may not write")
            await eventually(lambda: not ours.is_writing, what="the last write, sent before, has ended")
            done = len(ours.wrote_at)
            await hold(kcp, FORMER)
            await proxy.accept()
            await eventually(lambda: not ours.manager.working, what="it has ended")
    assert len(ours.wrote_at) == done
    assert (await read(kcp))["holderIdentity"] == FORMER
