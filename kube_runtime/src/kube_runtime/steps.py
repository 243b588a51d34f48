"""The loop around snapshot, plan and apply.

`plan` decides on the next step from a snapshot, without I/O. `apply` carries the step out and returns the snapshot with
its outcome. The loop ends with the first step that is done. Before each step the fence is checked, so a process that
lost its lease carries out nothing more.
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeGuard, TypeVar

from kube_runtime.controller.steps import MAX_STEPS, TooManySteps
from kube_runtime.tracing import part

__all__ = ["run_steps"]

S = TypeVar("S")
P = TypeVar("P")
D = TypeVar("D")


def _no_fence() -> None:
    return


async def run_steps(
    snapshot: S,
    *,
    plan: Callable[[S], P],
    apply: Callable[[S, P], Awaitable[S]],
    is_done: Callable[[Any], TypeGuard[D]],
    fence: Callable[[], None] = _no_fence,
    max_steps: int = MAX_STEPS,
) -> D:
    """Carry out planned steps until one of them is done, and return that one. Raises TooManySteps.

    What the fence raises is raised, and the step was not carried out.
    """
    for _ in range(max_steps):
        step = plan(snapshot)
        if is_done(step):
            return step
        fence()
        with part(type(step).__name__):
            snapshot = await apply(snapshot, step)
    step = plan(snapshot)
    if is_done(step):
        return step
    raise TooManySteps(f"not done after {max_steps} steps; the next would be {step!r}")
