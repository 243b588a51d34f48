"""A reconcile in stages, for what has an order that is a rule, such as a removal.

A snapshot is read, then a step is planned and applied, until a step ends the reconcile:

    read   (request)                  -> snapshot: what is known of the key, from caches and its state
    plan   (snapshot)                 -> step: all rules, pure; the next step, or an end
    apply  (request, snapshot, step)  -> snapshot with the outcome of the step: I/O, and no rule
    finish (request, snapshot, end)   -> result: writes the status

So every decision is made in `plan`, also what still runs after a step has failed: the failure is in the snapshot, and
`apply` needs no `except` for it. Exceptions that nobody expects are not folded: they are mistakes in the program.

The loop has no fence of its own. The clients of a Manager are fenced: each of their writes is refused once the process
has lost its lease.
"""

from collections.abc import Awaitable, Callable, Hashable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar, cast

from kube_runtime.controller.causes import NO_CAUSES, Causes
from kube_runtime.controller.groups import leaves
from kube_runtime.controller.workers import Result
from kube_runtime.exceptions import Conflict, KubeError, without_frames
from kube_runtime.tracing import part

K = TypeVar("K", bound=Hashable)
S = TypeVar("S")
T = TypeVar("T")
MAX_STEPS = 20


class TooManySteps(Exception):
    """A plan did not come to an end: the outcome of its last step led to another step again."""


@dataclass(frozen=True, slots=True)
class Step:
    """What a reconcile does next, with all that it needs for it. Frozen dataclasses derive from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class End(Step):
    """A step that ends the reconcile.

    - `requeue_after`: seconds until the next reconcile without a trigger
    - `error`: raised once the reconcile is finished, so that the key is retried as after any failure
    """

    requeue_after: float | None = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class StepFailure:
    """A step that was refused or could not be carried out."""

    step: Step
    error: Exception

    def __post_init__(self) -> None:
        without_frames(self.error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What a plan decides by. `failures` are the steps of this reconcile that failed, in their order."""

    failures: tuple[StepFailure, ...] = ()

    @property
    def error(self) -> Exception | None:
        """The first failure of this reconcile."""
        return self.failures[0].error if self.failures else None

    def failure_of(self, *steps: type[Step]) -> Exception | None:
        """Return the first failure of a step of these types."""
        return next((each.error for each in self.failures if isinstance(each.step, steps)), None)


V = TypeVar("V", bound=Snapshot)


@dataclass(eq=False, slots=True)
class Request(Generic[K, S]):
    """One reconcile of one key: what triggered it, the key's state, and what its steps share until it ends."""

    key: K
    state: S
    causes: Causes = NO_CAUSES
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack, repr=False)
    _entered: dict[Hashable, Any] = field(default_factory=dict, repr=False)

    async def shared(self, name: Hashable, context: Callable[[], AbstractAsyncContextManager[T]]) -> T:
        """Return what a context yields, which is entered by the first step that asks and left when the reconcile ends.

        So all steps use the same client of a cluster, and a reconcile that needs none does not connect.
        """
        if name not in self._entered:
            self._entered[name] = await self._stack.enter_async_context(context())
        return cast("T", self._entered[name])

    async def __aenter__(self) -> "Request[K, S]":
        return self

    async def __aexit__(self, *error: Any) -> None:
        self._entered.clear()
        await self._stack.__aexit__(*error)


@dataclass(frozen=True, kw_only=True, eq=False)
class Stages(Generic[K, S, V]):
    """The four functions of a reconcile, in the order in which a key passes through them.

    - `read` returns None where there is nothing to do
    - `apply` accepts the steps that `plan` returns and that are no ends, `finish` accepts the ends. No type checker
      takes a union apart, so `tests/structure/test_domains.py` compares the annotations
    - `outcomes`: the exceptions of steps that are folded into the snapshot
    """

    read: Callable[[Request[K, S]], Awaitable[V | None]]
    plan: Callable[[V], Step]
    apply: Callable[[Request[K, S], V, Any], Awaitable[V]]
    finish: Callable[[Request[K, S], V, Any], Awaitable[Result]]
    outcomes: tuple[type[Exception], ...] = (KubeError,)
    max_steps: int = MAX_STEPS

    async def reconcile(self, key: K, causes: Causes, state: S) -> Result:
        """Take the steps of a key to their end. Raises the error of the end, TooManySteps, and what nobody expects."""
        async with Request(key, state, causes) as request:
            seen = await self.read(request)
            if seen is None:
                return Result()
            seen, end = await self.take_steps(request, seen)
            result = await self.finish(request, seen, end)
        if end.error is not None:
            raise end.error
        return result

    async def take_steps(self, request: Request[K, S], seen: V) -> tuple[V, End]:
        """Apply planned steps until one of them is an end; return the last snapshot and that end."""
        for number in range(self.max_steps + 1):
            step = self.plan(seen)
            if isinstance(step, End):
                return seen, step
            if number == self.max_steps:
                raise TooManySteps(f"not done after {self.max_steps} steps; the next would be {step!r}")
            for each in seen.failures:
                if each.step == step:
                    raise each.error  # the plan does not know what to do about it
            seen = await self._taken(request, seen, step)
        raise AssertionError("unreachable")

    async def _taken(self, request: Request[K, S], seen: V, step: Step) -> V:
        with part(type(step).__name__):
            try:
                return await self.apply(request, seen, step)
            except self.outcomes as error:
                return replace(seen, failures=(*seen.failures, StepFailure(step, error)))
            except ExceptionGroup as group:
                unexpected = group.split(self.outcomes)[1]
                if unexpected is not None:
                    raise
                # A conflict is retried at once, so it decides only where nothing else failed.
                errors = sorted(leaves(group), key=lambda error: isinstance(error, Conflict))
                return replace(seen, failures=(*seen.failures, *(StepFailure(step, error) for error in errors)))
