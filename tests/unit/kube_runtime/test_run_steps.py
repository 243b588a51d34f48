"""The loop around snapshot, plan and apply."""

from dataclasses import dataclass
from typing import TypeGuard

import pytest

from kube_runtime import TooManySteps, run_steps
from kube_runtime.leases import LeaseLost


@dataclass(frozen=True)
class Add:
    number: int


@dataclass(frozen=True)
class Done:
    total: int


def plan(total: int) -> Add | Done:
    return Done(total) if total >= 3 else Add(1)


def is_done(step: object) -> TypeGuard[Done]:
    return isinstance(step, Done)


async def add(total: int, step: Add | Done) -> int:
    assert isinstance(step, Add)
    return total + step.number


async def test_outcome_of_each_step_goes_into_the_next_plan() -> None:
    assert await run_steps(0, plan=plan, apply=add, is_done=is_done) == Done(3)


async def test_plan_that_takes_exactly_as_many_steps_as_it_may_is_done() -> None:
    assert await run_steps(0, plan=plan, apply=add, is_done=is_done, max_steps=3) == Done(3)


async def test_plan_without_an_end_is_stopped() -> None:
    with pytest.raises(TooManySteps, match="2 steps"):
        await run_steps(0, plan=plan, apply=add, is_done=is_done, max_steps=2)


async def test_nothing_is_carried_out_behind_the_fence() -> None:
    carried_out: list[Add | Done] = []

    async def apply(total: int, step: Add | Done) -> int:
        carried_out.append(step)
        return await add(total, step)

    def fence() -> None:
        if carried_out:
            raise LeaseLost("others may have taken over")

    with pytest.raises(LeaseLost):
        await run_steps(0, plan=plan, apply=apply, is_done=is_done, fence=fence)
    assert carried_out == [Add(1)]
