"""The decorator that declares a function as a manager, and the call of that function.

The function may be a plain function, a generator, a coroutine function or an asynchronous generator, with the context
as second parameter or without. A plain function runs on the event loop, because turning a small object into a few
others takes microseconds, less than handing it to a thread. One that computes or reads for more than a few milliseconds
needs `in_thread=True`.
"""

import asyncio
import inspect
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, TypeVar, cast

import msgspec

from kyma_module_manager.context import ModuleContext
from kyma_module_manager.exceptions import DeclarationError, ObjectsRefused, RenderingFailed, SyncFailed

T = TypeVar("T")

SyncObject = Mapping[str, Any] | msgspec.Struct


@dataclass(frozen=True, slots=True)
class Rendered:
    """What a function returns in order to add fields to the status of the Module CR: its objects, and these fields.

    Lifecycle Manager writes them to the status in the SKR, beside its own: state, observedGeneration and conditions.
    """

    objects: Iterable[SyncObject] = ()
    status: Mapping[str, Any] | msgspec.Struct = field(default_factory=dict)


Objects = Iterable[SyncObject] | Rendered
SyncFunction = (
    Callable[[T], Objects | Awaitable[Objects] | AsyncIterable[SyncObject]]
    | Callable[[T, ModuleContext], Objects | Awaitable[Objects] | AsyncIterable[SyncObject]]
)


def module_manager(
    module: str,
    *,
    crd: type[T],
    in_thread: bool = False,
    timeout_seconds: float = 30.0,
) -> Callable[[SyncFunction[T]], "ModuleManager[T]"]:
    """Declare a function as the manager of a module.

    `crd` is the type of the Module CR: a msgspec struct, or `dict` for the plain document. `in_thread` runs a plain
    function in a thread instead of on the event loop. A run that takes longer than the timeout fails.
    """

    def declare(function: SyncFunction[T]) -> ModuleManager[T]:
        return ModuleManager(module, crd, function, in_thread=in_thread, timeout_seconds=timeout_seconds)

    return declare


@dataclass(frozen=True)
class ModuleManager(Generic[T]):
    """A declared manager: the module's name, the type of its Module CR, and the function."""

    module: str
    crd: type[T]
    function: SyncFunction[T]
    in_thread: bool = False
    timeout_seconds: float = 30.0
    _in_threads: set[str] = field(default_factory=set, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.module:
            raise DeclarationError("module_manager() requires the name of the module")
        if not callable(self.function):
            raise DeclarationError(f"{self.function!r} is not callable")
        if self.in_thread and _is_async(self.function):
            raise DeclarationError(f"{self._function_name} is asynchronous; in_thread is for plain functions only")
        if _positional_parameters(self.function) not in (1, 2):
            raise DeclarationError(
                f"{self._function_name} must take one or two parameters: the Module CR and the context"
            )

    def __call__(self, config: T, context: ModuleContext) -> Any:
        """Call the function directly, for tests of a decorated function."""
        function = cast("Callable[..., Any]", self.function)
        return function(config, context) if self.takes_context else function(config)

    async def rendered(self, config: T, context: ModuleContext) -> Rendered:
        """Run the function and collect what it returns.

        Raises the PermanentError of the function, or RenderingFailed for any other failure.
        """
        try:
            async with asyncio.timeout(self.timeout_seconds) as limit:
                return await self._collect(config, context)
        except SyncFailed:
            raise
        except (Exception, SystemExit) as error:
            if limit.expired() and isinstance(error, TimeoutError):  # not one of the function's own
                reason = f"{self._function_name} timed out after {self.timeout_seconds:g} s"
                raise RenderingFailed(reason) from error
            raise RenderingFailed(f"{type(error).__name__}: {error}") from error

    async def _collect(self, config: T, context: ModuleContext) -> Rendered:
        if self.in_thread:
            return await self._collect_in_thread(config, context)
        returned = self(config, context)
        if isinstance(returned, AsyncIterable):
            return Rendered(tuple([item async for item in returned]))
        return _collected(await returned if inspect.isawaitable(returned) else returned)

    async def _collect_in_thread(self, config: T, context: ModuleContext) -> Rendered:
        """Run the function in a thread of its own: one that never returns delays no other, and is not started again."""
        if context.name in self._in_threads:
            raise RenderingFailed(f"{self._function_name} still runs since it timed out")

        def run() -> Rendered:
            try:
                return _collected(self(config, context))
            except StopIteration as error:  # no future of asyncio can have it
                raise RuntimeError("the function raised StopIteration") from error

        executor = ThreadPoolExecutor(1, self.module)
        running = executor.submit(copy_context().run, run)
        executor.shutdown(wait=False)
        self._in_threads.add(context.name)
        running.add_done_callback(lambda _: self._in_threads.discard(context.name))
        return await asyncio.wrap_future(running)

    @cached_property
    def takes_context(self) -> bool:
        """Tell whether the function takes the context, and may so return others once its last objects are applied."""
        return _positional_parameters(self.function) == 2

    @property
    def blocks_the_loop(self) -> bool:
        """Tell whether the function blocks the event loop while it runs."""
        return not self.in_thread and not _is_async(self.function)

    @property
    def _function_name(self) -> str:
        return getattr(self.function, "__qualname__", repr(self.function))


def _collected(returned: Objects | None) -> Rendered:
    """Return what a function returned with all objects; a generator runs only here. Raises ObjectsRefused."""
    if returned is None:  # by a forgotten `return`, which would delete all
        raise ObjectsRefused("the function returned None: where no objects shall exist, return []")
    if isinstance(returned, Rendered):
        return Rendered(tuple(returned.objects), returned.status)
    return Rendered(tuple(returned))


def _positional_parameters(function: Callable[..., Any]) -> int:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(parameter.kind in kinds for parameter in inspect.signature(function).parameters.values())


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
