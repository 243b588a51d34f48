"""What a reconcile shares until it ends, and the steps of one whose order is a rule, such as a removal.

A plan, which is pure, returns the next step from what is known; its outcome, a failure too, is what the next one is
planned from, until a step is an end. At most MAX_STEPS are taken.
"""

from collections.abc import Callable, Hashable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

from kube_runtime.controller.causes import NO_CAUSES, Causes

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
