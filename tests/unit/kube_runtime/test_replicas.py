"""Replicas share objects by their Leases: each change is reconciled by the replica that owns its object by then."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from kube_runtime import Causes, Client, Controller, Manager, ObjectKey, Result
from kube_runtime.leases.lease import LeaseTiming
from kube_runtime.leases.lease_sharding import LeaseSharding
from tests.kinds import CONFIG_MAPS
from tests.waiting import eventually

NAMESPACE = "default"
TIMING = LeaseTiming(lease_seconds=120, act_seconds=100.0, renew_seconds=0.05)
NAMES = {f"object-{number}" for number in range(40)}


async def put_all(client: Client, text: str) -> None:
    for name in sorted(NAMES):
        document = {"metadata": {"name": name}, "data": {"text": text}}
        await client.apply(CONFIG_MAPS, name, document, NAMESPACE, field_manager="test")


@dataclass
class Process:
    """A replica with a controller that notes the texts with which it finds its keys."""

    manager: Manager
    texts: dict[str, set[str]] = field(default_factory=dict)

    @classmethod
    def on(cls, client: Client, name: str) -> "Process":
        sharding = LeaseSharding(client, namespace=NAMESPACE, group="keepers", name=name, timing=TIMING)
        process = cls(Manager(client, namespace=NAMESPACE, sharding=sharding))
        informer = process.manager.informer(CONFIG_MAPS)

        async def reconcile(key: ObjectKey, _causes: Causes, _state: None) -> Result:
            found = informer.get(key)
            if found is not None:
                process.texts.setdefault(key.name, set()).add(found["data"]["text"])
            return Result()

        controller: Controller[ObjectKey, None] = process.manager.controller("test")
        controller.watches(CONFIG_MAPS, cause="changed")
        controller.reconciles(reconcile)
        return process

    def owned(self) -> set[str]:
        return {each for each in NAMES if self.manager.sharding.owns(each)}

    def with_text(self, text: str) -> set[str]:
        return {name for name, texts in self.texts.items() if text in texts}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        stopping = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.manager.run(stopping))
            await eventually(lambda: self.manager.working)
            yield
            stopping.set()


async def test_each_replica_reconciles_the_changes_of_what_it_owns_and_of_nothing_else(client: Client) -> None:
    await put_all(client, "a")
    first, second = Process.on(client, "first"), Process.on(client, "second")
    async with first.running():
        await eventually(lambda: set(first.texts) == NAMES)
        async with second.running():
            await eventually(lambda: second.owned() and first.owned() == NAMES - second.owned())
            await put_all(client, "b")
            await eventually(lambda: first.with_text("b") == first.owned() and second.with_text("b") == second.owned())
        await eventually(lambda: first.with_text("b") == NAMES)


async def test_change_while_objects_move_to_another_replica_is_not_lost(client: Client) -> None:
    await put_all(client, "start")
    first, second = Process.on(client, "first"), Process.on(client, "second")
    async with first.running():
        await eventually(lambda: set(first.texts) == NAMES)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(put_all(client, "while one joins"))
            async with second.running():
                await eventually(lambda: second.owned() and first.owned() == NAMES - second.owned())
                joined = "while one joins"
                await eventually(lambda: first.with_text(joined) | second.with_text(joined) == NAMES)
                tasks.create_task(put_all(client, "while one leaves"))
                await asyncio.sleep(0.01)
        await eventually(lambda: first.with_text("while one leaves") | second.with_text("while one leaves") == NAMES)
