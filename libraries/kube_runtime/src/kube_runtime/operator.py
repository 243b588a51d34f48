"""Operators that are declared by decorators: what `kube-runtime run` runs. A thin layer over Manager and Controller.

A function gets an object of its kind and what to do for it. It is called after each change of the object, of objects
that it controls, so a child that somebody deletes or changes is repaired, and of objects that it has read.
"""

import asyncio
import inspect
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from kube_crds import CustomResource
from kube_runtime.client.client import Client
from kube_runtime.controller.causes import Causes
from kube_runtime.controller.controller import Controller
from kube_runtime.controller.workers import Result
from kube_runtime.exceptions import TriggerMistaken
from kube_runtime.finalizers import remove_finalizers, set_finalizers
from kube_runtime.manager import Manager, ManagerOptions
from kube_runtime.owner import Owner, ReadObjects, controlled_by, metadata_of
from kube_runtime.resource import JsonObject, ObjectKey, Resource

__all__ = ["OPERATOR_NAME", "Operator", "Owner"]

T = TypeVar("T")
Reconcile = Callable[[T, Owner[T]], Awaitable[float | None]]
Observed = Callable[[Callable[..., Any]], Callable[..., Any]]

log = logging.getLogger(__name__)
OPERATOR_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,48}[a-z0-9])?")


@dataclass(kw_only=True)
class _Operated(Generic[T]):
    """What is declared for a kind."""

    resource: Resource[T]
    reconcile: Reconcile[T] | None = None
    cleanup: Reconcile[T] | None = None
    owns: tuple[Resource[JsonObject], ...] = ()
    reads: tuple[Resource[Any], ...] = ()
    every: float | None = None


class Operator:
    """The functions that reconcile, by kind. `name` is the field manager of what is applied."""

    def __init__(self, name: str) -> None:
        if not OPERATOR_NAME.fullmatch(name):
            raise ValueError(f"invalid name of an operator {name!r}: expected {OPERATOR_NAME.pattern}")
        self.name = name
        self._operated: dict[str, _Operated[Any]] = {}
        self._extensions: list[Callable[[Manager], object]] = []

    @property
    def kinds(self) -> list[type[CustomResource]]:
        """The kinds that are declared as classes, which `kube-runtime crds` prints."""
        types = (each.resource.type for each in self._operated.values())
        return [each for each in types if issubclass(each, CustomResource)]

    def reconciles(
        self,
        kind: type[T] | Resource[T],
        *,
        owns: Iterable[Resource[JsonObject]] = (),
        reads: Iterable[Resource[Any]] = (),
        every: float | None = None,
    ) -> Callable[[Reconcile[T]], Reconcile[T]]:
        """Declare the function that reconciles the objects of a kind.

        It is not called for objects that are being deleted. It returns the seconds after which it is called again
        without a change, or None. What it raises is retried, with growing pauses, unless it is a TerminalError.

        - `owns`: the kinds of the objects that it applies
        - `reads`: the kinds of other objects that it gets; changes of those that it got call it again
        - `every`: the seconds after which it is called again where it returns None
        """
        operated = self._of(kind)

        def decorated(function: Reconcile[T]) -> Reconcile[T]:
            _check(function, operated.resource, operated.reconcile)
            operated.reconcile, operated.every = function, every
            operated.owns, operated.reads = tuple(owns), tuple(reads)
            return function

        return decorated

    def finalizes(self, kind: type[T] | Resource[T]) -> Callable[[Reconcile[T]], Reconcile[T]]:
        """Declare the function that cleans up before an object of a kind is removed.

        A finalizer holds the object back until the function returns None, also over restarts; it is removed then. A
        number is the seconds after which the function is called again, as it is after what it raises.
        """
        operated = self._of(kind)

        def decorated(function: Reconcile[T]) -> Reconcile[T]:
            _check(function, operated.resource, operated.cleanup)
            operated.cleanup = function
            return function

        return decorated

    def extends(self, function: Callable[[Manager], object]) -> Callable[[Manager], object]:
        """Declare a function that gets the Manager before the start: for background tasks, checks, controllers."""
        self._extensions.append(function)
        return function

    def setup(
        self,
        manager: Manager,
        owner: Callable[[ObjectKey], str] = lambda key: key.name,
        *,
        observed: Observed = lambda reconcile: reconcile,
    ) -> None:
        """Declare all controllers at a Manager; `owner` as of `Manager.controller`, `observed` wraps each reconcile."""
        for operated in self._operated.values():
            controller: Controller[ObjectKey, None] = manager.controller(operated.resource.plural_name, owner=owner)
            controller.reconciles(observed(_OperatedController(self.name, manager, operated, controller).reconcile))
        for extend in self._extensions:
            extend(manager)

        async def announce() -> None:
            kinds = ", ".join(str(each.resource) for each in self._operated.values()) or "no kinds"
            where = f"the namespace {manager.namespace}" if manager.namespace else "all namespaces"
            log.info("%s reconciles %s in %s", self.name, kinds, where)

        manager.before_start(announce)

    @asynccontextmanager
    async def running(self, client: Client, *, namespace: str | None = None) -> AsyncIterator[Manager]:
        """Run the operator inside the context, beside other work of a program or in a test."""
        manager, stopping = Manager(client, ManagerOptions(name=self.name), namespace=namespace), asyncio.Event()
        self.setup(manager)
        running = asyncio.create_task(manager.run(stopping))
        try:
            yield manager
        finally:
            stopping.set()
            await running

    def _of(self, kind: type[T] | Resource[T]) -> _Operated[T]:
        resource = kind if isinstance(kind, Resource) else Resource.of(kind)
        return self._operated.setdefault(resource.plural_name, _Operated(resource=resource))


class _OperatedController(Generic[T]):
    """Calls the functions for the objects of one kind."""

    def __init__(
        self, operator: str, manager: Manager, operated: _Operated[T], controller: Controller[ObjectKey, None]
    ) -> None:
        self._operator = operator
        self._manager = manager
        self._operated = operated
        self._finalizer = f"{operated.resource.group or 'kube-runtime'}/{operator}"
        self._items = manager.informer(operated.resource)
        self._children = {each.plural_name: manager.informer(each) for each in operated.owns}
        self._reads = ReadObjects({each.plural_name: manager.informer(each) for each in operated.reads})
        controller.watches(self._items)
        for child in operated.owns:
            controller.watches(child, to=controlled_by(operated.resource))
        for each in operated.reads:
            controller.watches(each, to=self._reads.readers_of(each))

    async def reconcile(self, key: ObjectKey, _causes: Causes, _state: None) -> Result:
        item = self._items.get(key)
        if item is None:
            self._reads.forget(key)
            return Result()
        metadata, function, interval = metadata_of(item), self._operated.reconcile, self._operated.every
        client, resource = self._manager.client, self._operated.resource
        changes: list[str] = []
        if metadata.being_deleted:
            if self._finalizer not in metadata.finalizers:
                return Result()
            function, interval = self._operated.cleanup, None
        elif self._operated.cleanup is not None and self._finalizer not in metadata.finalizers:
            finalizers = (*metadata.finalizers, self._finalizer)
            item = await set_finalizers(client, resource, metadata, finalizers, field_manager=self._operator)
            self._items.wrote(item)
            changes.append("added the finalizer")
        owner = Owner(
            item=item,
            resource=resource,
            manager=self._manager,
            operator=self._operator,
            children=self._children,
            reads=self._reads,
            changes=changes,
        )
        try:
            pause = await function(item, owner) if function is not None else None
            self._reads.forget(key, but=owner.has_read)
            if metadata.being_deleted and pause is None:
                await remove_finalizers(
                    client, resource, metadata, self._finalizer, field_manager=self._operator, informer=self._items
                )
                changes.append("removed the finalizer")
        finally:
            if changes:
                log.info("%s %s: %s", resource.kind, key, ", ".join(changes))
        return Result(requeue_after=interval if pause is None else pause)


def _check(function: Callable[..., Any], resource: Resource[Any], former: Callable[..., Any] | None) -> None:
    """Raise TriggerMistaken for a function that can't be called with what it gets."""
    name = getattr(function, "__name__", repr(function))
    expected = f"expected async def {name}(item, owner)"
    if former is not None:
        raise TriggerMistaken(f"{name}: {resource} has the function {former.__name__} already; call one of the other")
    try:
        inspect.signature(function).bind(None, None)
    except TypeError as error:
        raise TriggerMistaken(f"{name}: {error}: {expected}") from None
    if not inspect.iscoroutinefunction(function):
        raise TriggerMistaken(f"{name} is not async: {expected}")
