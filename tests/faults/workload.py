"""What a test provides: controllers, and users who want something of them."""

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Concatenate, ParamSpec, TypeVar

from kube_runtime.client.client import Client
from kube_runtime.resource import JsonObject

__all__ = ["Process", "Script", "Users", "Workload"]

K = TypeVar("K")
P = ParamSpec("P")
R = TypeVar("R")
Observe = Callable[[object, Coroutine[Any, Any, Any]], Awaitable[Any]]


@dataclass(frozen=True)
class Process:
    """One life of the process under test: its connections, new in each life, and how often it looks at everything.

    Its informers get `resync_seconds`, its controllers their reconcile by way of `observed`.
    """

    clients: Mapping[str, Client]
    resync_seconds: float
    _observe: Observe = field(repr=False)

    @property
    def client(self) -> Client:
        """The connection to the first cluster, which is the only one of most workloads."""
        return next(iter(self.clients.values()))

    def observed(
        self, reconcile: Callable[Concatenate[K, P], Coroutine[Any, Any, R]]
    ) -> Callable[Concatenate[K, P], Awaitable[R]]:
        """Return a reconcile whose rounds are counted and which can be cancelled at each of its awaits."""

        async def round_of(key: K, /, *args: P.args, **kwargs: P.kwargs) -> R:
            result: R = await self._observe(key, reconcile(key, *args, **kwargs))
            return result

        return round_of


@dataclass(frozen=True)
class Users:
    """Those who want something: their connections, and the way to wait until the controllers have done it."""

    clients: Mapping[str, Client]
    settled: Callable[[], Awaitable[None]]

    @property
    def client(self) -> Client:
        """The connection to the first cluster."""
        return next(iter(self.clients.values()))


Script = Callable[[Users], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Controllers under test, and a script that brings them to one known end.

    - `process`: runs the controllers until it is cancelled; it is started anew after each death
    - `script`: what users do; they wait with `settled` wherever the next step is to find the last one done
    - `clusters`: the names of the clusters that both speak to
    - `initial`: objects, such as definitions, that are in each cluster before anything runs; or by cluster
    - `ignored`: names of fields that need not be the same at the end, besides those of the server and times
    - `foreseen`: what a reconcile may raise where a fault hides an object that it needs, besides KubeError
    """

    process: Callable[[Process], Awaitable[None]]
    script: Script
    clusters: tuple[str, ...] = ("one",)
    initial: tuple[JsonObject, ...] | Mapping[str, tuple[JsonObject, ...]] = ()
    ignored: frozenset[str] = frozenset()
    foreseen: tuple[type[Exception], ...] = ()
    resync_seconds: float = 0.02

    def initial_of(self, cluster: str) -> tuple[JsonObject, ...]:
        """Return what is in a cluster before anything runs."""
        return self.initial.get(cluster, ()) if isinstance(self.initial, Mapping) else self.initial
