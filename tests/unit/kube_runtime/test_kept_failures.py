"""What a failure was about is not kept with it: answers of hostile servers would fill the memory."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from kube_runtime import (
    Causes,
    ClusterUnreachable,
    InventoryEntry,
    ObjectOutcome,
    ResponseInvalid,
    Result,
)
from kube_runtime.client.circuit import Circuit
from kube_runtime.exceptions import TerminalError
from tests.unit.kube_runtime.test_workers import running
from tests.waiting import eventually


class Answer:
    """Stands for up to 64 MiB."""


class Server:
    def __init__(self, error: type[Exception]) -> None:
        self._error = error
        self.answers: list[weakref.ref[Answer]] = []

    async def read(self) -> None:
        """Fail over an answer, with a cause that was raised over it."""
        answer = Answer()
        self.answers.append(weakref.ref(answer))
        try:
            int("no number")
        except ValueError as cause:
            raise self._error("the answer can't be read") from cause

    @property
    def kept(self) -> int:
        return sum(each() is not None for each in self.answers)


@pytest.fixture(autouse=True)
def no_search_for_garbage() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("error", [ResponseInvalid, TerminalError])
async def test_answer_over_which_a_reconcile_fails_is_freed_at_once(error: type[Exception]) -> None:
    server = Server(error)

    async def reconcile(_key: str, _causes: Causes) -> Result:
        try:
            await server.read()
        except Exception as raised:
            failure = raised  # as a snapshot keeps it
            raise failure from raised
        return Result()

    async with running(reconcile) as workers:
        workers.queue.add("a")
        await eventually(lambda: len(server.answers) > 0 and server.kept == 0)


async def test_open_circuit_keeps_no_part_of_an_answer() -> None:
    server, circuit = Server(ClusterUnreachable), Circuit(enabled=True)
    try:
        await server.read()
    except ClusterUnreachable as error:
        circuit.failed(error)
    assert circuit.failure is not None
    assert server.kept == 0


async def test_outcome_of_an_object_keeps_no_part_of_an_answer() -> None:
    server, entry = Server(ResponseInvalid), InventoryEntry("", "v1", "ConfigMap", "default", "one")
    try:
        await server.read()
    except ResponseInvalid as error:
        outcome = ObjectOutcome(entry, None, "failed", cause=error)
    assert isinstance(outcome.cause, ResponseInvalid)
    assert server.kept == 0
