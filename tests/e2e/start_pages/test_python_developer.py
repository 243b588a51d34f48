"""The Python developer's page: an operator that is written, run and tested, with a child, a cleanup and replicas."""

import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from kube_runtime import Client, Resource
from tests.e2e.start_pages.reader import Reader, reader_of
from tests.kinds import EVENTS
from tests.waiting import eventually, is_gone

pytestmark = [
    pytest.mark.xdist_group("demo"),
    pytest.mark.skipif(sys.platform != "linux", reason="reads running processes from /proc"),
]
COMMAND = "klm local up --skrs 0"
NAMESPACE = "default"
SCRATCHES = Resource.dynamic("scratch.example.com", "v1", "Scratch", "scratches", namespaced=True)
CLAIMS = Resource.dynamic("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", namespaced=True)
LEASES = Resource.dynamic("coordination.k8s.io", "v1", "Lease", "leases", namespaced=True)


@pytest.fixture
def first_reader(tmp_path: Path) -> Iterator[Reader]:
    with reader_of(COMMAND, tmp_path) as reader:
        yield reader


@pytest_asyncio.fixture
async def client(first_reader: Reader) -> AsyncIterator[Client]:
    async with await Client.from_environment(first_reader.folder / ".local/clusters/kcp/kubeconfig") as made:
        yield made


async def test_each_command_of_the_python_developers_page_does_what_it_says(reader: Reader, client: Client) -> None:
    async def recorded(reason: str) -> bool:
        return any(each["reason"] == reason for each in (await client.list(EVENTS, NAMESPACE)).items)

    async def nothing_is_there_yet() -> None:
        assert await is_gone(client.list(SCRATCHES, NAMESPACE))

    async def refused_claim_is_an_event() -> None:
        claim = await client.get(CLAIMS, "one", NAMESPACE)
        assert claim["metadata"]["labels"] == {"team": "blue"}
        await client.merge_patch(SCRATCHES, "one", {"spec": {"size": "2Gi"}}, NAMESPACE)
        await eventually(lambda: recorded("Refused"))

    async def volume_is_released() -> None:
        assert await is_gone(client.get(SCRATCHES, "one", NAMESPACE))
        await eventually(lambda: recorded("Released"))

    async def nothing_but_tests() -> None:
        assert (reader.folder / "test_scratch.py").exists()

    async def replica_shares_the_work() -> None:
        await eventually(lambda: _leases(client))
        document = {"metadata": {"name": "one"}, "spec": {"size": "1Gi", "minutes": 0}}
        await client.create(SCRATCHES, document, NAMESPACE, field_manager="user")
        await eventually(lambda: is_gone(client.get(SCRATCHES, "one", NAMESPACE)))

    judges = {
        "1": nothing_is_there_yet,
        "2": refused_claim_is_an_event,
        "3": volume_is_released,
        "4": nothing_but_tests,
        "5": replica_shares_the_work,
    }
    await reader.follow(Path("docs/start/python-developer.md"), judges)


async def _leases(client: Client) -> bool:
    return bool((await client.list(LEASES, NAMESPACE)).items)
