"""One playground for all pages, started as the first of them says."""

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from kube_runtime import Client
from tests.e2e.start_pages import playground
from tests.e2e.start_pages.playground import Playground
from tests.e2e.start_pages.reader import Reader, reader_of


@pytest.fixture(scope="package")
def first_reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """The reader who has started the playground."""
    with reader_of(playground.COMMAND, tmp_path_factory.mktemp("playground")) as reader:
        yield reader


@pytest.fixture
def reader(first_reader: Reader) -> Iterator[Reader]:
    """A reader beside whom the playground runs."""
    another = first_reader.another()
    try:
        yield another
    finally:
        another.close()


@pytest_asyncio.fixture
async def clusters(first_reader: Reader) -> AsyncIterator[Playground]:
    at = first_reader.folder / playground.FOLDER
    async with (
        await Client.from_environment(at / "kcp/kubeconfig") as kcp,
        await Client.from_environment(at / "skr-1/kubeconfig") as demo,
        await Client.from_environment(at / "skr-2/kubeconfig") as second,
    ):
        yield Playground(kcp, demo, second)
