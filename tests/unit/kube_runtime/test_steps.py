"""The loop of a reconcile: each outcome is planned from, failures too, and clients are closed at the end."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest

from kube_runtime import (
    Causes,
    Conflict,
    End,
    KubeError,
    NotFound,
    Request,
    Result,
    Snapshot,
    Stages,
    Step,
    StepFailure,
    TooManySteps,
)
from kube_runtime.leases import LeaseLost


@dataclass(frozen=True, slots=True)
class Add(Step):
    number: int


@dataclass(frozen=True, slots=True)
class Note(Step):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Total(End):
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted(Snapshot):
    total: int = 0
    wanted: int = 3
    is_noted: bool = False


@dataclass(eq=False)
class Counter:
    """Adds ones; `errors` are raised by the next additions instead."""

    errors: list[Exception] = field(default_factory=list)
    ends: list[Total] = field(default_factory=list)
    open_clients: int = 0
    connected: int = 0

    async def read(self, request: Request[str, None]) -> Counted | None:
        return Counted() if request.key == "there" else None

    async def apply(self, request: Request[str, None], seen: Counted, step: Add | Note) -> Counted:
        await request.shared("client", self.connect)
        match step:
            case Add(number):
                if self.errors:
                    raise self.errors.pop(0)
                return replace(seen, total=seen.total + number)
            case Note():
                return replace(seen, is_noted=True)

    async def finish(self, _: Request[str, None], seen: Counted, end: Total) -> Result:
        assert seen.total == end.total
        self.ends.append(end)
        return Result(end.requeue_after)

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[object]:
        self.connected += 1
        self.open_clients += 1
        try:
            yield object()
        finally:
            self.open_clients -= 1

    async def reconcile(self, key: str = "there", *, max_steps: int = 20) -> Result:
        stages = Stages(read=self.read, plan=plan, apply=self.apply, finish=self.finish, max_steps=max_steps)
        return await stages.reconcile(key, Causes(()), None)


def plan(seen: Counted) -> Add | Note | Total:
    if seen.failure_of(Add) is not None:
        return Note() if not seen.is_noted else Total(total=seen.total, error=seen.error)
    return Total(total=seen.total, requeue_after=60.0) if seen.total >= seen.wanted else Add(1)


async def test_outcome_of_each_step_goes_into_the_next_plan() -> None:
    counter = Counter()
    assert await counter.reconcile() == Result(60.0)
    assert [end.total for end in counter.ends] == [3]


async def test_key_without_a_snapshot_has_nothing_to_do() -> None:
    counter = Counter()
    assert await counter.reconcile("gone") == Result()
    assert not counter.ends


async def test_plan_that_takes_exactly_as_many_steps_as_it_may_ends() -> None:
    assert await Counter().reconcile(max_steps=3) == Result(60.0)


async def test_plan_without_an_end_is_stopped() -> None:
    counter = Counter()
    with pytest.raises(TooManySteps, match="2 steps"):
        await counter.reconcile(max_steps=2)
    assert counter.open_clients == 0


async def test_plan_decides_what_follows_a_failed_step_and_the_error_is_raised_at_the_end() -> None:
    refused = Conflict(409, "Conflict", "somebody else wrote first")
    counter = Counter(errors=[refused])
    with pytest.raises(Conflict) as raised:
        await counter.reconcile()
    assert raised.value is refused
    assert [end.error for end in counter.ends] == [refused], "finished before it is raised"


async def test_conflict_in_a_group_decides_only_where_nothing_else_failed() -> None:
    graver, conflict = NotFound(404, "NotFound", "a"), Conflict(409, "Conflict", "b")
    counter = Counter(errors=[ExceptionGroup("two", [ExceptionGroup("inner", [conflict]), graver])])
    with pytest.raises(NotFound) as raised:
        await counter.reconcile()
    assert raised.value is graver
    assert len(counter.ends) == 1


@pytest.mark.parametrize("error", [ValueError("a mistake"), LeaseLost("another replica has it")])
async def test_exception_that_nobody_expects_is_no_outcome(error: Exception) -> None:
    counter = Counter(errors=[error])
    with pytest.raises(type(error)):
        await counter.reconcile()
    assert not counter.ends
    assert counter.open_clients == 0


async def test_group_with_an_exception_that_nobody_expects_is_no_outcome() -> None:
    counter = Counter(errors=[ExceptionGroup("two", [NotFound(404, "NotFound", "a"), ValueError("a mistake")])])
    with pytest.raises(ExceptionGroup):
        await counter.reconcile()
    assert not counter.ends


async def test_step_that_failed_is_not_repeated_by_a_plan_that_ignores_the_failure() -> None:
    attempts = []

    async def apply(request: Request[str, None], seen: Counted, step: Add | Note) -> Counted:
        attempts.append(step)
        raise KubeError("refused")

    def stubborn(seen: Counted) -> Add | Total:
        return Total(total=0) if seen.total else Add(1)

    counter = Counter()
    stages = Stages(read=counter.read, plan=stubborn, apply=apply, finish=counter.finish)
    with pytest.raises(KubeError, match="refused"):
        await stages.reconcile("there", Causes(()), None)
    assert attempts == [Add(1)]


async def test_step_that_is_planned_again_raises_its_own_failure() -> None:
    errors = {Add(1): KubeError("of the addition"), Note(): KubeError("of the note")}

    async def apply(request: Request[str, None], seen: Counted, step: Add | Note) -> Counted:
        raise errors[step]

    def back_and_forth(seen: Counted) -> Add | Note:
        return Note() if len(seen.failures) == 1 else Add(1)

    counter = Counter()
    stages = Stages(read=counter.read, plan=back_and_forth, apply=apply, finish=counter.finish)
    with pytest.raises(KubeError, match="of the addition"):
        await stages.reconcile("there", Causes(()), None)


async def test_steps_share_a_client_that_is_closed_at_the_end() -> None:
    counter = Counter()
    await counter.reconcile()
    assert (counter.connected, counter.open_clients) == (1, 0)


def test_snapshot_names_its_failures() -> None:
    first, second = NotFound(404, "NotFound", "a"), Conflict(409, "Conflict", "b")
    seen = Counted(failures=(StepFailure(Add(1), first), StepFailure(Note(), second)))
    assert seen.error is first
    assert seen.failure_of(Note) is second
    assert Counted().error is None
    assert Counted().failure_of(Add, Note) is None
