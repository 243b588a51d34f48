"""The parts of a controller's triggers: where they come from, and that they take changes and not objects."""

import inspect
import logging
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from types import UnionType
from typing import Any, Generic, Protocol, TypeVar, Union, get_args, get_origin

from kube_runtime.clock import Clock
from kube_runtime.controller.causes import Causes
from kube_runtime.controller.priority import Priority
from kube_runtime.controller.shared_limit import SharedLimit
from kube_runtime.controller.workers import Result
from kube_runtime.exceptions import TriggerMistaken
from kube_runtime.informer import Change, Informer
from kube_runtime.metrics import RuntimeMetrics
from kube_runtime.resource import Resource
from kube_runtime.sharding import Sharding
from kube_runtime.tracing import Tracer

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
R = TypeVar("R")
log = logging.getLogger(__name__)

_GETS_A_CHANGE = "a function of watches() gets a Change, whose objects are `old` and `new`"
_TAKEN = frozenset({Any, inspect.Parameter.empty, *Change.__mro__})


class Sources(Protocol):
    """Where triggers come from, and what all controllers share: the Manager."""

    sharding: Sharding
    tracer: Tracer | None
    trace_annotation: str
    limit: SharedLimit
    metrics: RuntimeMetrics
    clock: Clock
    on_result: Callable[[str, Result | Exception], None]

    def informer(self, resource: Resource[T]) -> Informer[T]:
        """Return the informer of a resource."""
        ...

    def on(self, signal_type: type[T], handler: Callable[[T], int]) -> None:
        """Deliver signals of a type to a function that returns how many keys it enqueued."""
        ...


@dataclass(frozen=True, slots=True)
class Start(Generic[K]):
    """Keys to start with, how urgent they are, and what caused that."""

    keys: Callable[[], Iterable[K]]
    priority: Priority
    causes: Causes


def own_key(resource: Resource[T], change: Change[T]) -> Iterable[Any]:
    """Return the key of the changed object."""
    known = change.new if change.new is not None else change.old
    assert known is not None  # noqa: S101 - a change has at least one of them
    return (resource.key_of(known),)


def is_replaced(resource: Resource[T], change: Change[T]) -> bool:
    """Tell whether the object of before is gone, whatever has its name now."""
    if change.old is None:
        return False
    return change.new is None or resource.uid_of(change.old) != resource.uid_of(change.new)


def as_tuple(keys_of: Callable[[Change[T]], Iterable[K]]) -> Callable[[Change[T]], tuple[K, ...]]:
    """Return the function with what a generator raises raised at the call."""
    return lambda change: tuple(keys_of(change))


def require_change(name: str, *functions: Callable[..., object] | None) -> None:
    """Raise TriggerMistaken for a function of a trigger that takes something else by its annotation."""
    for function in filter(None, functions):
        taken = next((each.annotation for each in inspect.signature(function).parameters.values()), Any)
        is_union = get_origin(taken) in {Union, UnionType}  # one and the same from Python 3.14 on
        kinds = [get_origin(each) or each for each in (get_args(taken) if is_union else (taken,))]
        others = [each for each in kinds if isinstance(each, type) and each not in _TAKEN]
        if len(others) == len(kinds):
            found = " or ".join(each.__name__ for each in others)
            raise TriggerMistaken(f"controller {name!r}: {_GETS_A_CHANGE}, not {found}")


def guarded(name: str, function: Callable[[Change[T]], R]) -> Callable[[Change[T]], R]:
    """Return a function of a trigger that raises TriggerMistaken where it takes the change for an object."""

    def call(change: Change[T]) -> R:
        try:
            return function(change)
        except (AttributeError, TypeError) as error:
            if getattr(error, "obj", None) is not change and not str(error).startswith("'Change' object"):
                raise
            raise TriggerMistaken(f"controller {name!r}: {_GETS_A_CHANGE}: {error}") from error

    return call


def try_out(informer: Informer[Any], function: Callable[[Change[Any]], object]) -> None:
    """Call a function of a trigger with a change: so a mistaken one is found at the start, even without objects."""
    try:
        function(Change(None, next(iter(informer.cache.list()), None)))
    except TriggerMistaken:
        raise
    except Exception:
        log.debug("a trigger fails at one object", exc_info=True)  # and is logged at each change that it fails at


def new_trace(sources: Sources, resource: Resource[T], change: Change[T]) -> str:
    """Return the trace that a change brings: of an object that is new, or was written as part of another trace."""
    if sources.tracer is None or change.new is None:
        return ""
    annotation = sources.trace_annotation
    known = "" if change.old is None else resource.annotation_of(change.old, annotation)
    found = resource.annotation_of(change.new, annotation)
    return found if found != known else ""
