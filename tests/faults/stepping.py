"""Driving a coroutine from one await to the next, so that it can be cancelled at each of them.

A task sees of a coroutine only where it gives the event loop its turn. Standing between the two, these places are
counted, and at the one that is chosen the coroutine is cancelled, as it would be if its process ended.
"""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

__all__ = ["ReconcileCut", "Stepped"]

T = TypeVar("T")


class ReconcileCut(Exception):
    """A reconcile was cancelled at one of its awaits, on purpose. It has to be retried."""


class Stepped(Generic[T]):
    """An awaitable that runs a coroutine. `is_last` is asked at each await whether it is the one to cancel at."""

    def __init__(self, coroutine: Coroutine[Any, Any, T], is_last: Callable[[], bool]) -> None:
        self._coroutine = coroutine
        self._is_last = is_last

    def __await__(self) -> Generator[Any, Any, T]:
        thrown: BaseException | None = None
        cut = False
        while True:
            try:
                if thrown is None:
                    awaited = self._coroutine.send(None)
                else:
                    awaited, thrown = self._coroutine.throw(thrown), None
            except StopIteration as done:
                result: T = done.value
                if cut:
                    raise ReconcileCut from None
                return result
            except asyncio.CancelledError:
                if cut and not _is_being_cancelled():
                    raise ReconcileCut from None
                raise
            if not cut and self._is_last():
                cut = True
                if not _cancel(awaited):
                    thrown = asyncio.CancelledError()
                    continue
            try:
                yield awaited
            except BaseException as error:  # noqa: BLE001 - the task's word to the coroutine, whatever it is
                thrown = error


def _cancel(awaited: object) -> bool:
    """Cancel what is awaited, as a task does that is cancelled; it releases what it holds."""
    return isinstance(awaited, asyncio.Future) and awaited.cancel()


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
