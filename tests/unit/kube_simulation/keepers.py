"""Controllers that keep a ConfigMap for every Thing.

One is right, the others are wrong in ways that tests of good days don't notice.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from kube_runtime import (
    Applier,
    Causes,
    Client,
    Controller,
    Informer,
    InventoryEntry,
    JsonObject,
    KubernetesObject,
    Manager,
    ManagerOptions,
    NotFound,
    ObjectKey,
    Result,
    RetryPolicy,
)
from tests.faults import Process, Users, Workload
from tests.integration.kube_runtime.things import THINGS, definition, thing
from tests.kinds import CONFIG_MAPS

FINALIZER = "things.example.com/keeper"
KEEPER = "keeper"
Reconcile = Callable[[ObjectKey], Coroutine[Any, Any, Result]]


def workload(keeper: Callable[[Client, Informer[JsonObject]], Reconcile]) -> Workload:
    """Return a workload of a controller, by what makes its reconcile in each life of its process."""

    async def process(process: Process) -> None:
        retry = RetryPolicy(base_seconds=0.005, max_seconds=0.02, rate=1000.0)
        manager = Manager(
            process.client, ManagerOptions(retry=retry, resync_seconds=process.resync_seconds), namespace="default"
        )
        things = manager.informer(THINGS)
        reconcile = keeper(process.client, things)

        async def reconcile_key(key: ObjectKey, _causes: Causes, _state: None) -> Result:
            return await reconcile(key)

        controller: Controller[ObjectKey, None] = manager.controller(KEEPER, concurrency=2)
        controller.watches(things)
        controller.reconciles(process.observed(reconcile_key))
        await manager.run(asyncio.Event())

    return Workload(process=process, script=script, initial=(definition(),))


async def script(users: Users) -> None:
    """Make two Things, change one, and delete it."""
    client = users.client
    for name in ("one", "two"):
        await client.create(THINGS, thing(name, word="hello"), "default", field_manager="user")
    await users.settled()
    await client.merge_patch(THINGS, "one", {"spec": {"word": "bye"}}, "default")
    await users.settled()
    await client.delete(THINGS, "one", "default")
    await users.settled()


def right(client: Client, things: Informer[JsonObject]) -> Reconcile:
    """Decides by what is there alone, and holds a Thing until its ConfigMap is gone."""
    applier = Applier(client, field_manager=KEEPER, labels={"kept-by": KEEPER})

    async def reconcile(key: ObjectKey) -> Result:
        found = things.cache.get(key)
        if found is None:
            return Result()
        if found["metadata"].get("deletionTimestamp"):
            await applier.delete([InventoryEntry("", "v1", "ConfigMap", key.namespace, key.name)])
            await _set_finalizers(client, found, [])
        else:
            await _set_finalizers(client, found, [FINALIZER])
            document = {"apiVersion": "v1", "kind": "ConfigMap", **_config_map(key, found)}
            result = await applier.apply([KubernetesObject.of(document)])
            for outcome in result.outcomes:
                if outcome.cause is not None:
                    raise outcome.cause
        return Result()

    return reconcile


def forgetful(client: Client, things: Informer[JsonObject]) -> Reconcile:
    """Generates names, and knows only in memory what it has made."""
    made: dict[ObjectKey, str] = {}

    async def reconcile(key: ObjectKey) -> Result:
        found = things.cache.get(key)
        if found is None:
            if key in made:
                await client.delete(CONFIG_MAPS, made.pop(key), key.namespace)
        elif key not in made:
            document = {"metadata": {"generateName": f"{key.name}-"}, "data": {}}
            created = await client.create(CONFIG_MAPS, document, key.namespace, field_manager=KEEPER)
            made[key] = created["metadata"]["name"]
        return Result()

    return reconcile


def trusting(client: Client, things: Informer[JsonObject]) -> Reconcile:
    """Takes a list for the present, and gives what it makes a name that does not keep it from being made twice."""

    async def reconcile(key: ObjectKey) -> Result:
        if things.cache.get(key) is None:
            return Result()
        listed = await client.list(CONFIG_MAPS, key.namespace, label_selector=f"thing={key.name}")
        if not listed.items:
            metadata = {"generateName": f"{key.name}-", "labels": {"thing": key.name}}
            await client.create(CONFIG_MAPS, {"metadata": metadata}, key.namespace, field_manager=KEEPER)
        return Result()

    return reconcile


def historian(client: Client, things: Informer[JsonObject]) -> Reconcile:
    """Writes down every word that a Thing ever had, as if it received each."""

    async def reconcile(key: ObjectKey) -> Result:
        found = things.cache.get(key)
        if found is not None:
            word = found["spec"]["word"]
            known = await client.list(CONFIG_MAPS, key.namespace, field_selector=f"metadata.name={key.name}")
            if not known.items:
                await client.create(CONFIG_MAPS, _config_map(key, found), key.namespace, field_manager=KEEPER)
            elif word not in (known.items[0].get("data") or {}).values():
                await client.merge_patch(CONFIG_MAPS, key.name, {"data": {f"then-{word}": word}}, key.namespace)
        return Result()

    return reconcile


def untidy(client: Client, things: Informer[JsonObject]) -> Reconcile:
    """Notes that it is at work, and forgets to take that back when it is interrupted."""
    applier = Applier(client, field_manager=KEEPER)
    at_work: set[ObjectKey] = set()

    async def reconcile(key: ObjectKey) -> Result:
        found = things.cache.get(key)
        if found is not None and key not in at_work:
            at_work.add(key)
            document = {"apiVersion": "v1", "kind": "ConfigMap", **_config_map(key, found)}
            await applier.apply([KubernetesObject.of(document)])
            at_work.discard(key)
        return Result()

    return reconcile


def restless(client: Client, things: Informer[JsonObject]) -> Reconcile:
    count = 0

    async def reconcile(key: ObjectKey) -> Result:
        nonlocal count
        count += 1
        patch = {"metadata": {"annotations": {"seen": str(count)}}}
        if things.cache.get(key) is not None:
            await client.merge_patch(THINGS, key.name, patch, key.namespace)
        return Result()

    return reconcile


def careless(client: Client, things: Informer[JsonObject]) -> Reconcile:
    """Takes for granted that an object of an event is there."""

    async def reconcile(key: ObjectKey) -> Result:
        found = things.cache.get(key)
        assert found is not None
        await client.apply(CONFIG_MAPS, key.name, _config_map(key, found), key.namespace, field_manager=KEEPER)
        return Result()

    return reconcile


async def _set_finalizers(client: Client, found: JsonObject, finalizers: list[str]) -> None:
    metadata = found["metadata"]
    if (metadata.get("finalizers") or []) == finalizers:
        return
    patch = {"metadata": {"finalizers": finalizers, "resourceVersion": metadata["resourceVersion"]}}
    try:
        await client.merge_patch(THINGS, metadata["name"], patch, metadata["namespace"], field_manager=KEEPER)
    except NotFound:
        return


def _config_map(key: ObjectKey, found: JsonObject) -> JsonObject:
    return {"metadata": {"name": key.name, "namespace": key.namespace}, "data": {"word": found["spec"]["word"]}}
