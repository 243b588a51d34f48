"""A watch on objects of the SKR as its user, and waiting for one to have an expected state."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from kube_runtime import Change, Client, Informer, ObjectKey, Resource

JsonObject = dict[str, Any]
Expectation = Callable[[JsonObject | None], bool]

CONFIG_MAPS: Resource[JsonObject] = Resource.dynamic("", "v1", "ConfigMap", "configmaps", namespaced=True)


class NotSeen(Exception):
    """An object did not have the expected state in time."""


class ObjectWatcher:
    """Watches one kind, and measures when an object first has an expected state."""

    def __init__(self, client: Client, resource: Resource[JsonObject], namespace: str) -> None:
        self._namespace = namespace
        self._resource = resource
        self._informer: Informer[JsonObject] = Informer(client, resource, namespace=namespace)
        self._informer.on_change(self._notice)
        self._waiting: list[tuple[str, Expectation, asyncio.Future[float]]] = []

    async def run(self) -> None:
        """Watch until cancelled."""
        await self._informer.run()

    async def ready(self, timeout_seconds: float) -> None:
        """Wait until the watch has started."""
        await self._informer.wait_synced(timeout_seconds)

    async def wait_for(self, name: str, expectation: Expectation, *, within: float) -> float:
        """Return the time (of `time.perf_counter`) at which the object first had the expected state.

        The expectation receives None if the object does not exist. Raises NotSeen at the deadline.
        """
        if expectation(self._informer.cache.get(ObjectKey(self._namespace, name))):
            return time.perf_counter()
        seen: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        entry = (name, expectation, seen)
        self._waiting.append(entry)
        try:
            async with asyncio.timeout(within):
                return await seen
        except TimeoutError:
            raise NotSeen(
                f"{self._resource.kind} {self._namespace}/{name} did not have the expected state within {within:g} s"
            ) from None
        finally:
            self._waiting.remove(entry)

    def _notice(self, change: Change[JsonObject]) -> None:
        now = time.perf_counter()
        changed = change.new if change.new is not None else change.old
        if changed is None:
            return
        for name, expectation, seen in self._waiting:
            if name == changed["metadata"]["name"] and not seen.done() and expectation(change.new):
                seen.set_result(now)
