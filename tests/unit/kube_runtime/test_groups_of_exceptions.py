"""What a reconcile raises in a TaskGroup has the same consequence as if it were raised alone."""

import asyncio
from itertools import pairwise

import pytest

from kube_runtime import (
    Causes,
    Client,
    ClusterUnreachable,
    Conflict,
    Controller,
    Manager,
    Result,
    TerminalError,
)
from kube_runtime.leases.lease import LeaseLost
from tests.waiting import eventually


class NoAccess(Exception):
    pass


class Unreadable(Exception):
    pass


LOST = LeaseLost("others may have taken over")
NO_ACCESS = NoAccess("no access Secret")
TERMINAL = TerminalError("nothing to be done")
CONFLICT = Conflict(409, "Conflict", "another write came first")
UNREACHABLE = ClusterUnreachable("no response")
MISTAKE = AttributeError("a mistake in the program")


class Failing:
    """A controller whose reconcile does several things at once, in a group in a group; notes what is reported."""

    def __init__(self, client: Client) -> None:
        self.reported: list[Exception] = []
        self._errors: tuple[Exception, ...] = ()
        manager = Manager(client)
        self._controller: Controller[str, None] = manager.controller(
            "test", exists=lambda _: True, not_retried=(NoAccess,)
        )
        self._controller.reconciles(self._reconcile, unforeseen=self._report, foreseen=(Unreadable,))

    async def reconcile(self, *errors: Exception) -> None:
        """Reconcile with parts that raise these at the same time."""
        self._errors = errors
        await self._controller.reconcile_now("a")

    async def fail_once(self, error: Exception) -> None:
        """Have a worker reconcile, which raises this, and then reconcile again."""
        self._errors = (error,)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(self._controller.run())
            self._controller.enqueue("a")
            await eventually(lambda: bool(self._controller.failures))
            self._errors = ()
            await eventually(lambda: not self._controller.failures)
            await self._controller.shutdown(grace_seconds=10)
            await running

    async def _reconcile(self, _key: str, _causes: Causes, _state: None) -> Result:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._raise_all())
        return Result()

    async def _raise_all(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for error in self._errors:
                tasks.create_task(_raise(error))

    async def _report(self, _key: str, error: Exception) -> None:
        self.reported.append(error)


async def _raise(error: Exception) -> None:
    raise error


@pytest.fixture
def failing(client: Client) -> Failing:
    return Failing(client)


@pytest.mark.parametrize("beside", [(), (UNREACHABLE,), (LOST, CONFLICT)])
async def test_mistake_in_a_group_is_reported_and_raised_whole(failing: Failing, beside: tuple[Exception, ...]) -> None:
    with pytest.raises(ExceptionGroup) as raised:
        await failing.reconcile(*beside, MISTAKE)
    assert failing.reported == [MISTAKE]
    assert raised.value.split(AttributeError)[0] is not None


@pytest.mark.parametrize(("mild", "grave"), list(pairwise([LOST, NO_ACCESS, TERMINAL, CONFLICT, UNREACHABLE])))
async def test_gravest_of_a_group_is_raised_alone(failing: Failing, mild: Exception, grave: Exception) -> None:
    for errors in ((grave,), (mild, grave), (grave, mild)):
        with pytest.raises(type(grave)) as raised:
            await failing.reconcile(*errors)
        assert raised.value is grave
        assert isinstance(raised.value.__cause__, ExceptionGroup)
    assert failing.reported == []


@pytest.mark.parametrize(("error", "level"), [(Unreadable("a template"), "WARNING"), (MISTAKE, "ERROR")])
async def test_only_a_mistake_is_logged_as_an_error(
    failing: Failing, caplog: pytest.LogCaptureFixture, error: Exception, level: str
) -> None:
    await failing.fail_once(error)
    (failure,) = (each for each in caplog.records if "test: a failed" in each.getMessage())
    assert (failure.levelname, failing.reported == [error]) == (level, level == "ERROR")
