"""Clients of SKRs that are lent: one that is retired is closed once nobody uses it, whoever is cancelled meanwhile."""

import asyncio
import base64
from collections import defaultdict
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kube_runtime import ClientOptions, ClusterUnreachable, Informer, KubeconfigPolicy, dump_yaml
from lifecycle_manager.contract.resources import SECRETS, Secret
from lifecycle_manager.skr.access import ACCESS_SECRETS, AccessSecretMissing, SkrAccessError, SkrUnreachable, server_of
from lifecycle_manager.skr.connections import Connections
from lifecycle_manager_api import ObjectMeta, names
from tests.kubeconfigs import kubeconfig
from tests.waiting import eventually
from tests.world import World


def open_gate() -> asyncio.Event:
    gate = asyncio.Event()
    gate.set()
    return gate


@dataclass(eq=False)
class Lent:
    """A client that is closed once its gate is open."""

    name: str
    gate: asyncio.Event
    failure: ClusterUnreachable | None = None
    closed: int = 0

    async def probe(self) -> None:
        """Have an answer."""
        self.failure = None

    async def close(self) -> None:
        await self.gate.wait()
        self.closed += 1


@dataclass(eq=False)
class Lender(Connections):
    """Opens and closes clients when a test says, by default at once. A client is named by Kyma and version."""

    versions: defaultdict[str, int] = field(default_factory=lambda: defaultdict(lambda: 1))
    opening: defaultdict[str, asyncio.Event] = field(default_factory=lambda: defaultdict(open_gate))
    closing: defaultdict[str, asyncio.Event] = field(default_factory=lambda: defaultdict(open_gate))
    opened: list[Lent] = field(default_factory=list)
    missing: set[str] = field(default_factory=set)
    writes: int = 0

    def have_access(self, kyma_name: str) -> bool:
        return kyma_name not in self.missing

    def access_secret(self, kyma_name: str) -> Secret:
        if not self.have_access(kyma_name):
            raise AccessSecretMissing(kyma_name)
        self.writes += 1  # of labels and annotations, in between
        metadata = ObjectMeta(name=kyma_name, resource_version=f"written-{self.writes}")
        return Secret(metadata=metadata, data={"config": str(self.versions[kyma_name])})

    async def use(self, kyma_name: str, gate: asyncio.Event | None = None) -> str:
        """Borrow a client until a gate is open, and return its name."""
        async with self.to(kyma_name) as client:
            await (gate or open_gate()).wait()
            return cast("Lent", client).name

    def open_clients(self) -> list[str]:
        return [each.name for each in self.opened if not each.closed]

    async def _open(self, secret: Secret) -> Any:
        name = f"{secret.metadata.name} {secret.data['config']}"
        await self.opening[name].wait()
        self.opened.append(Lent(name, self.closing[name]))
        return self.opened[-1]


@pytest.fixture
def lender() -> Lender:
    return Lender(cast("Informer[Secret]", None), ClientOptions(), KubeconfigPolicy.permissive(), 1)


async def begun() -> None:
    """Have all tasks go on until they wait."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_client_is_kept_while_the_kubeconfig_is_the_same(lender: Lender) -> None:
    assert [await lender.use("a") for _ in range(3)] == ["a 1"] * 3
    assert len(lender.opened) == 1


async def test_client_of_a_rotated_kubeconfig_that_is_retired_meanwhile(lender: Lender) -> None:
    await lender.use("a")
    lender.versions["a"], lender.opening["a 2"] = 2, asyncio.Event()
    rotated = asyncio.create_task(lender.use("a"))
    await begun()
    await lender.use("b")  # in place of the former client of a
    assert lender.open_clients() == ["b 1"]
    lender.opening["a 2"].set()
    assert await rotated == "a 2"
    assert lender.open_clients() == ["a 2"]


async def test_former_kubeconfig_is_not_opened_after_the_present_one(lender: Lender) -> None:
    lender.opening["a 1"] = asyncio.Event()
    first = asyncio.create_task(lender.use("a"))
    waiting = asyncio.create_task(lender.use("a"))
    await begun()
    lender.versions["a"] = 2
    lender.opening["a 1"].set()
    assert [await first, await waiting] == ["a 1", "a 2"]
    assert lender.open_clients() == ["a 2"]


@pytest.mark.parametrize("retired", ["b", "a"])
async def test_cancelled_borrower_is_counted_no_more_and_closes_what_it_retired(lender: Lender, retired: str) -> None:
    lender.closing["a 1"] = asyncio.Event()
    await lender.use("a")
    if retired == "a":
        lender.versions["a"] = 2
    borrowing = asyncio.create_task(lender.use(retired))
    await begun()
    borrowing.cancel()  # as the time limit of a reconcile does, while the former client is being closed
    with pytest.raises(asyncio.CancelledError):
        await borrowing
    lender.closing["a 1"].set()
    await lender.use("c")
    await lender.close()
    assert [each.closed for each in lender.opened] == [1, 1, 1]


@pytest.mark.parametrize("is_probed", [True, False])
async def test_silent_cluster_whose_client_was_closed_is_asked_by_probes_alone(lender: Lender, is_probed: bool) -> None:
    async with lender.to("a") as client:
        cast("Lent", client).failure = ClusterUnreachable("timed out")
    await lender.use("b")  # in place of the client of a
    with pytest.raises(SkrUnreachable, match="timed out"):
        await lender.use("a")
    assert lender.open_clients() == ["b 1"]
    if is_probed:
        await lender.probe("a")
    else:
        lender.found("a")  # other credentials
    assert await lender.use("a") == "a 1"


async def test_silence_of_a_cluster_whose_access_secret_is_gone_is_not_remembered(lender: Lender) -> None:
    """Nothing is known of it any more: a Kyma that is being deleted waits for ever for a cluster that is silent."""
    async with lender.to("a") as client:
        cast("Lent", client).failure = ClusterUnreachable("timed out")
    lender.missing.add("a")
    lender.found("a")
    await lender.use("b")  # in place of the client of a
    with pytest.raises(AccessSecretMissing):
        await lender.use("a")


async def test_client_in_use_is_closed_once_by_its_last_user(lender: Lender) -> None:
    gates = [asyncio.Event(), asyncio.Event()]
    users = [asyncio.create_task(lender.use("a", gate)) for gate in gates]
    await begun()
    await lender.use("b")
    for user, gate in zip(users, gates, strict=True):
        assert lender.open_clients() == ["a 1", "b 1"]
        gate.set()
        await user
    assert [each.closed for each in lender.opened] == [1, 0]


async def test_slow_close_of_one_client_delays_no_borrower_of_another(lender: Lender) -> None:
    lender.closing["a 1"] = asyncio.Event()
    await lender.use("a")
    slow = asyncio.create_task(lender.use("b"))
    await begun()
    async with asyncio.timeout(60):
        assert await lender.use("c") == "c 1"
    lender.closing["a 1"].set()
    assert await slow == "b 1"
    assert lender.open_clients() == ["c 1"]


@pytest.mark.parametrize("server", ["https://API.example.com:443/", "https://api.example.com"])
def test_server_of_a_kubeconfig_is_the_same_however_it_is_written(server: str) -> None:
    named = {"name": "k", "cluster": {"server": server}}
    chosen = [{"name": "c", "context": {"cluster": "k"}}]
    kubeconfig = dump_yaml({"clusters": [{}, named], "contexts": chosen, "current-context": "c"})
    config = base64.b64encode(kubeconfig.encode()).decode()
    assert server_of(Secret(metadata=ObjectMeta(name="s"), data={"config": config})) == "https://api.example.com"


@pytest.mark.parametrize(("cluster", "is_the_same"), [("mine", True), ("theirs", False)])
async def test_clusters_of_two_replicas_are_compared(world: World, cluster: str, is_the_same: bool) -> None:
    await world.register("mine")
    await world.register("theirs", cluster=cluster)
    secrets = Informer(world.kcp, SECRETS, indexes=[ACCESS_SECRETS])
    connections = Connections(secrets, ClientOptions(), KubeconfigPolicy.permissive())
    running = asyncio.create_task(secrets.run())
    await secrets.wait_synced(10)
    assert connections.lead_to_the_same_cluster("mine", "theirs") is is_the_same
    await world.kcp.merge_patch(SECRETS, "kubeconfig-theirs", {"data": None}, names.KCP_NAMESPACE)
    await eventually(lambda: not connections.access_secret("theirs").data)
    assert not connections.lead_to_the_same_cluster("mine", "theirs")
    running.cancel()


async def test_refused_kubeconfig_names_the_option_that_accepts_it() -> None:
    document = kubeconfig(**{"proxy-url": "http://proxy.example:3128"})
    data = {"config": base64.b64encode(dump_yaml(document).encode()).decode()}
    secrets: Any = SimpleNamespace(by_index=lambda *_: [Secret(metadata=ObjectMeta(name="access"), data=data)])
    connections = Connections(secrets, ClientOptions(), KubeconfigPolicy.strict())
    with pytest.raises(SkrAccessError, match="it goes by a proxy; --allow-insecure-kubeconfigs accepts it"):
        async with connections.to("demo"):
            raise AssertionError("it must not be used")
