"""What an API server accepts is decoded, and written without loss: generated from the schemas."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from kube_crds import object_schema
from kube_runtime import Client, ClientOptions, Invalid
from lifecycle_manager.process.crd_installation import apply_crds
from lifecycle_manager_api import as_document, decode
from lifecycle_manager_api.crds import KINDS
from lifecycle_manager_api.kinds import ApiObject
from tests.integration.api.generated import documents
from tests.integration.api.objects import COMPLETE, RESOURCES, in_namespace, read

EXAMPLES = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.filter_too_much],
)
NAMESPACE = "default"
WITH_STATUS = [kind for kind in KINDS if "status" in kind.__struct_fields__]


class Server:
    """An API server that can be asked from outside its client's event loop."""

    def __init__(self, kubeconfig: Path) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="asking")
        self._thread.start()
        self.client: Client = self.ask(lambda: _client(kubeconfig))

    def ask(self, make: Callable[[], Awaitable[Any]]) -> Any:
        """Run a coroutine to its end on the client's event loop."""

        async def run() -> Any:
            return await make()

        answer: Future[Any] = asyncio.run_coroutine_threadsafe(run(), self._loop)
        return answer.result(timeout=60)

    def close(self) -> None:
        """End the client and its event loop."""
        self.ask(self.client.close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@pytest.fixture(scope="module")
def server(kcp: Path) -> Iterator[Server]:
    """The API server, with the CRDs and one object of each kind."""
    server = Server(kcp)
    try:
        server.ask(lambda: apply_crds(server.client))
        yield server
    finally:
        server.close()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.KIND)
@given(data=st.data())
@EXAMPLES
def test_spec_that_is_accepted_is_read_and_written_without_loss(
    server: Server, kind: type[ApiObject], data: st.DataObject
) -> None:
    spec = data.draw(documents(object_schema(kind), "spec"))
    document = _document(kind, {"spec": spec})

    refused = _refusal(
        server,
        lambda: server.client.create(RESOURCES[kind.KIND], document, NAMESPACE, field_manager="test", dry_run=True),
    )

    _agree(kind, document, refused)


@pytest.mark.parametrize("kind", WITH_STATUS, ids=lambda kind: kind.KIND)
@given(data=st.data())
@EXAMPLES
def test_status_that_is_accepted_is_read_and_written_without_loss(
    server: Server, stored: Callable[[type[ApiObject]], dict[str, Any]], kind: type[ApiObject], data: st.DataObject
) -> None:
    status = data.draw(documents(object_schema(kind), "status"))
    document = stored(kind) | {"status": status}

    refused = _refusal(
        server,
        lambda: server.client.replace(
            RESOURCES[kind.KIND],
            document["metadata"]["name"],
            document,
            NAMESPACE,
            field_manager="test",
            subresource="status",
            dry_run=True,
        ),
    )

    _agree(kind, document, refused)


@pytest.fixture(scope="module")
def stored(server: Server) -> Iterator[Callable[[type[ApiObject]], dict[str, Any]]]:
    made: dict[str, dict[str, Any]] = {}

    def of(kind: type[ApiObject]) -> dict[str, Any]:
        if kind.KIND not in made:
            document = next(read(file) for file in COMPLETE.values() if read(file)["kind"] == kind.KIND)
            document = in_namespace(document, NAMESPACE)
            made[kind.KIND] = server.ask(
                lambda: server.client.create(RESOURCES[kind.KIND], document, NAMESPACE, field_manager="test")
            )
        return made[kind.KIND]

    yield of
    for name, document in made.items():
        server.ask(lambda: server.client.delete(RESOURCES[name], document["metadata"]["name"], NAMESPACE))  # noqa: B023


def _agree(kind: type[ApiObject], document: dict[str, Any], refused: Invalid | None) -> None:
    event("taken" if refused is None else "refused")
    if refused is not None:
        assert refused.causes
        return
    known = decode(kind, json.dumps(document))
    assert decode(kind, json.dumps(as_document(known))) == known


def _refusal(server: Server, request: Callable[[], Awaitable[Any]]) -> Invalid | None:
    try:
        server.ask(request)
    except Invalid as error:
        return error
    return None


def _document(kind: type[ApiObject], parts: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": "generated", "namespace": NAMESPACE}
    return {"apiVersion": f"{kind.GROUP}/{kind.VERSION}", "kind": kind.KIND, "metadata": metadata} | parts


async def _client(kubeconfig: Path) -> Client:
    return await Client.from_environment(kubeconfig, options=ClientOptions(qps=0))
