"""A controller on an informer that keeps account: what it reconciled, and whether anything happened that must not."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from kube_runtime import (
    Causes,
    Change,
    Client,
    Informer,
    KubeError,
    NotFound,
    NotServed,
    ObjectKey,
    Result,
    RuntimeMetrics,
)
from kube_runtime.controller.options import ControllerOptions
from kube_runtime.controller.workers import Workers
from tests.kinds import CONFIG_MAPS
from tests.waiting import eventually

TURNS_OF_A_RECONCILE = 5


class Follower:
    """Follows the ConfigMaps of a namespace, two a page, and reconciles each to nothing but a note of its version."""

    def __init__(self, client: Client, namespace: str, **options: Any) -> None:
        self.metrics = RuntimeMetrics()
        self.counts = self.metrics.informer("configmaps")
        options = {"page_size": 2, **options}
        self.informer = Informer(client, CONFIG_MAPS, namespace=namespace, metrics=self.metrics, **options)
        self.controller = Workers("follower", self._reconcile, ControllerOptions(concurrency=4), metrics=self.metrics)
        self.informer.on_change(self._on_change)
        self.reconciled: dict[ObjectKey, str] = {}
        self.twice: list[ObjectKey] = []
        self.reported_backwards: list[tuple[ObjectKey, int, int]] = []
        self.reported_as_restored: set[ObjectKey] = set()
        self._under_way: set[ObjectKey] = set()
        self._newest_reported: defaultdict[ObjectKey, int] = defaultdict(int)
        self._namespace = namespace

    async def run(self) -> None:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.informer.run())
            tasks.create_task(self.controller.run())

    async def agrees_with(self, server: Client) -> None:
        """Wait until the cache holds what the server holds, and the newest version of everything was reconciled."""
        await self._equals(server)
        assert not self.reported_backwards, "an older state was reported after a newer one"

    async def follows_into_the_past(self, server: Client) -> None:
        """Wait as `agrees_with` does, where older states after newer ones are what happened."""
        await self._equals(server)
        assert self.reported_backwards
        assert {key for key, _, _ in self.reported_backwards} & self.reported_as_restored
        self.reported_backwards.clear()
        self._newest_reported.clear()

    async def _equals(self, server: Client) -> None:
        async def same() -> bool:
            try:
                listed = await server.list(CONFIG_MAPS, self._namespace)
            except KubeError:
                return False
            there = {CONFIG_MAPS.key_of(item): CONFIG_MAPS.version_of(item) for item in listed.items}
            return there == self.cached() == self.reconciled

        await eventually(same, what="the cache and the reconciles equal the server")
        assert not self.twice, "a key was given to two workers at once"

    def cached(self) -> dict[ObjectKey, str]:
        return {CONFIG_MAPS.key_of(item): CONFIG_MAPS.version_of(item) for item in self.informer.cache.list()}

    def _on_change(self, change: Change[dict[str, Any]]) -> None:
        either = change.new or change.old
        assert either is not None
        key = CONFIG_MAPS.key_of(either)
        if change.new is not None:
            version = int(CONFIG_MAPS.version_of(change.new))
            if version < self._newest_reported[key]:
                self.reported_backwards.append((key, self._newest_reported[key], version))
            self._newest_reported[key] = version
        if change.may_be_restored:
            self.reported_as_restored.add(key)
        self.controller.queue.add(key)

    async def _reconcile(self, key: ObjectKey, _causes: Causes) -> Result:
        if key in self._under_way:
            self.twice.append(key)
        self._under_way.add(key)
        found = self.informer.cache.get(key)
        for _ in range(TURNS_OF_A_RECONCILE):
            await asyncio.sleep(0)
        if found is None:
            self.reconciled.pop(key, None)
        else:
            self.reconciled[key] = CONFIG_MAPS.version_of(found)
        self._under_way.discard(key)
        return Result()


@asynccontextmanager
async def following(client: Client, namespace: str, **options: Any) -> AsyncIterator[Follower]:
    """Have a follower follow while the block runs, from when its cache is full."""
    async with starting_to_follow(client, namespace, **options) as follower:
        await follower.informer.wait_synced(60)
        yield follower


@asynccontextmanager
async def starting_to_follow(client: Client, namespace: str, **options: Any) -> AsyncIterator[Follower]:
    follower = Follower(client, namespace, **options)
    task = asyncio.create_task(follower.run())
    try:
        yield follower
    finally:
        ended_by_itself = task.done()
        task.cancel()
        await asyncio.wait({task})
    assert not ended_by_itself, f"the follower ended: {task.exception()!r}"


async def put(server: Client, namespace: str, name: str, value: str) -> dict[str, Any]:
    document = {"metadata": {"name": name}, "data": {"value": value}}
    return await server.apply(CONFIG_MAPS, name, document, namespace, field_manager="test")


async def populate(server: Client, namespace: str) -> None:
    """Make six ConfigMaps: three pages of a follower's list."""
    for number in range(6):
        await put(server, namespace, f"cm-{number}", "begin")


async def change_everything(server: Client, namespace: str, value: str = "changed") -> None:
    """Do to ConfigMaps whatever can be done to them: change, delete, delete and make again, make."""
    await put(server, namespace, "cm-0", value)
    for name in ("cm-1", "cm-2"):
        try:
            await server.delete(CONFIG_MAPS, name, namespace)
        except (NotFound, NotServed):
            continue
    await put(server, namespace, "cm-2", value)
    await put(server, namespace, f"new-{value}", value)
