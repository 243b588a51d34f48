"""What only a simulation has: many clusters, a record of what was asked, a past that ends, a start from anything."""

import asyncio
from contextlib import aclosing
from datetime import UTC, datetime

import pytest
import uvloop
from yarl import URL

from kube_runtime import Client, Informer, KubeconfigPolicy, NotFound, NotServed
from kube_simulation import SimulatedCluster, Simulation, serve_simulation
from tests.kinds import CONFIG_MAPS
from tests.waiting import eventually

INSECURE = KubeconfigPolicy(allow_insecure=True)


async def write(client: Client, name: str = "one", **data: str) -> None:
    await client.apply(CONFIG_MAPS, name, {"metadata": {"name": name}, "data": data}, "default", field_manager="m")


async def test_clusters_are_distinguished_by_their_address(simulation: Simulation) -> None:
    first, second = simulation.cluster("first"), simulation.cluster("second")
    assert simulation.cluster("first") is first
    async with (
        await Client.from_kubeconfig(first.kubeconfig, policy=INSECURE) as one,
        await Client.from_kubeconfig(second.kubeconfig, policy=INSECURE) as other,
    ):
        await write(one)
        with pytest.raises(NotFound):
            await other.get(CONFIG_MAPS, "one", "default")
        simulation.remove("first")
        with pytest.raises(NotServed):
            await one.server_version()


async def test_requests_are_remembered_up_to_a_bound_and_counted_for_ever(
    client: Client, cluster: SimulatedCluster, simulation: Simulation
) -> None:
    await write(client)
    with pytest.raises(NotFound):
        await client.get(CONFIG_MAPS, "two", "default")
    applied, missed = cluster.requests()
    assert (applied.verb, applied.resource, applied.name, applied.manager) == ("apply", "configmaps", "one", "m")
    assert (applied.code, applied.is_write) == (201, True)
    assert (missed.verb, missed.code, missed.manager, missed.is_write) == ("get", 404, "tests", False)
    for _ in range(150):
        await client.server_version()
    assert simulation.records.count == 152
    assert len(simulation.requests()) == 100
    assert cluster.requests(lambda record: record.is_write) == []
    assert len(cluster.requests(since=150)) == 2


def test_client_that_leaves_during_a_change_ends_its_watch_without_an_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """With uvloop a closed connection may be written to before it is known to be lost."""

    async def leave() -> None:
        async with serve_simulation() as simulation:
            cluster = simulation.cluster("one")
            address = URL(simulation.address)
            reader, writer = await asyncio.open_connection(address.host, address.port)
            writer.write(b"GET /clusters/one/api/v1/configmaps?watch=true HTTP/1.1\r\nHost: one\r\n\r\n")
            await reader.readuntil(b"\r\n\r\n")
            writer.transport.abort()
            for number in range(8):
                cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"n{number}"}})
                await asyncio.sleep(0)
            await eventually(lambda: not cluster.open_watches)

    uvloop.run(leave())
    assert [record.exc_text or record.getMessage() for record in caplog.records] == []


async def test_watch_that_falls_behind_the_history_lists_again(client: Client, cluster: SimulatedCluster) -> None:
    informer = Informer(client, CONFIG_MAPS, namespace="default")
    following = asyncio.create_task(informer.run())
    await informer.wait_synced(60)
    for number in range(60):
        document = {"metadata": {"name": f"n{number}"}}
        cluster.answer_to("POST", "/api/v1/namespaces/default/configmaps", document)
    await eventually(lambda: len(informer.cache) == 60)
    following.cancel()
    await asyncio.wait([following])


async def test_bookmarks_keep_an_idle_watch_up_to_date(client: Client, cluster: SimulatedCluster) -> None:
    await write(client)
    async with aclosing(client.watch(CONFIG_MAPS, "kube-system", resource_version=str(cluster.version))) as events:
        await write(client, "two")
        mark = await anext(events)
    assert (mark.type, mark.resource_version) == ("BOOKMARK", str(cluster.version))


async def test_cluster_begins_with_what_it_is_given_and_is_the_same_each_time() -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    states = []
    for _ in range(2):
        async with serve_simulation(clock=lambda: now) as simulation:
            cluster = simulation.cluster("one")
            cluster.answer_to("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"generateName": "a-"}})
            states.append(cluster.objects())
    assert states[0] == states[1]
    async with serve_simulation() as simulation:
        copied = simulation.cluster("copy")
        copied.restore(each for each in states[0] if each["kind"] == "ConfigMap")
        listed = copied.answer_to("GET", "/api/v1/configmaps").document()
        assert [item["metadata"]["creationTimestamp"] for item in listed["items"]] == ["2030-01-01T00:00:00Z"]


async def test_empty_cluster_costs_a_few_kilobytes(simulation: Simulation) -> None:
    import tracemalloc  # noqa: PLC0415 - it slows down what is imported with it

    simulation.cluster("warm").answer_to("GET", "/api/v1/namespaces")
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(200):
            simulation.cluster(f"n{number}").answer_to("GET", "/api/v1/namespaces")
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (after - before) / 200 < 10_000
