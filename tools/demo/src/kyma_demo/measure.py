"""The duration of a change, and the floor: the same API calls sent back to back by a plain client."""

import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import msgspec

from kube_runtime import Client, Resource, parse_objects
from kyma_demo import names
from kyma_demo.environment import Environment
from kyma_demo.report import Spread
from kyma_demo.timeline import Station
from lifecycle_manager.contract.resources import MODULE_CONFIGS, SYNC_RESOURCES
from lifecycle_manager_api import ModuleConfig, SyncResource

CHANGING_KINDS = frozenset({"ConfigMap", "PersistentVolume"})
IN_A_ROW = 10
"""Changes before the floor is measured as often. What a change still writes for nobody delays the first of them."""


async def changes(
    count: int,
    change: Callable[[str], Awaitable[tuple[datetime, tuple[Station, ...]]]],
    floor: Callable[[], Awaitable[float]],
    *,
    first_capacity: int = 1000,
) -> tuple[Spread, Spread, Spread]:
    """Make changes, each after the user has seen the previous one, and measure the floor after every few of them.

    What else runs on the machine changes within seconds, and is to concern both alike. Returns after which time each
    change is in force, after which time the status of the Module CR says so, and the floor.
    """
    in_force, shown, floors = list[float](), list[float](), list[float]()
    for number in range(count):
        _, (_, seen, ready) = await change(f"{first_capacity + number}Gi")
        in_force.append(seen.ms)
        shown.append(ready.ms)
        if len(in_force) % IN_A_ROW == 0 or len(in_force) == count:
            floors += [await floor() for _ in range(len(in_force) - len(floors))]
    return Spread.of(in_force), Spread.of(shown), Spread.of(floors)


@asynccontextmanager
async def floor_of(
    environment: Environment, module_cr: Resource[dict[str, Any]], config: ModuleConfig, sync: SyncResource
) -> AsyncIterator[Callable[[], Awaitable[float]]]:
    """Give a function that sends the API calls of one change back to back, and returns the milliseconds that they take.

    They are the user's write (with admission), the read, the ModuleConfig, the SyncResource, and the objects that a
    change of one volume modifies. They write scratch objects in a namespace that no program manages. The user's write
    changes an annotation only: the Watcher admits it like any other, and sends no event.
    """
    bare = _PlainClient(environment.kcp, environment.skr)
    numbers = itertools.count()

    async def once() -> float:
        number, started = next(numbers), time.perf_counter()
        await bare.user_writes(module_cr, number)
        await bare.read(module_cr)
        await bare.apply_in_kcp(MODULE_CONFIGS, config, number)
        await bare.apply_in_kcp(SYNC_RESOURCES, sync, number)
        await bare.apply_objects(sync, number)
        return (time.perf_counter() - started) * 1000

    await once()  # creates the objects that the others change
    try:
        yield once
    finally:
        await bare.clean_up(sync)


class _PlainClient:
    """A plain client."""

    def __init__(self, kcp: Client, skr: Client) -> None:
        self._kcp = kcp
        self._skr = skr

    async def user_writes(self, module_cr: Resource[dict[str, Any]], number: int) -> None:
        patch = {"metadata": {"annotations": {"demo/floor": str(number)}}}
        await self._skr.merge_patch(
            module_cr, names.INFRASTRUCTURE, patch, names.SKR_NAMESPACE, field_manager=names.USER
        )

    async def read(self, module_cr: Resource[dict[str, Any]]) -> None:
        await self._skr.get(module_cr, names.INFRASTRUCTURE, names.SKR_NAMESPACE)

    async def apply_in_kcp(self, resource: Resource[Any], like: ModuleConfig | SyncResource, number: int) -> None:
        spec = msgspec.to_builtins(like.spec)
        document = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": "floor", "namespace": names.SCRATCH_NAMESPACE},
            "spec": spec | {"resource": f"{spec['resource']}\n# {number}\n"},
        }
        await self._kcp.apply(resource, "floor", document, names.SCRATCH_NAMESPACE, field_manager=names.FIELD_MANAGER)

    async def apply_objects(self, sync: SyncResource, number: int) -> None:
        for each in parse_objects(sync.spec.resource):
            if each.kind not in CHANGING_KINDS:
                continue
            resource = await self._skr.mapper.resource(each.api_version, each.kind)
            namespace = names.SCRATCH_NAMESPACE if resource.namespaced else None
            metadata = {"name": f"floor-{each.name}"} | ({"namespace": namespace} if namespace else {})
            document = {**each.document, "metadata": metadata | {"annotations": {"demo/floor": str(number)}}}
            await self._skr.apply(resource, metadata["name"], document, namespace, field_manager=names.FIELD_MANAGER)

    async def clean_up(self, sync: SyncResource) -> None:
        """Remove the scratch objects."""
        await self._kcp.delete(MODULE_CONFIGS, "floor", names.SCRATCH_NAMESPACE)
        await self._kcp.delete(SYNC_RESOURCES, "floor", names.SCRATCH_NAMESPACE)
        for each in parse_objects(sync.spec.resource):
            if each.kind in CHANGING_KINDS:
                resource = await self._skr.mapper.resource(each.api_version, each.kind)
                namespace = names.SCRATCH_NAMESPACE if resource.namespaced else None
                await self._skr.delete(resource, f"floor-{each.name}", namespace)
        patch = {"metadata": {"annotations": {"demo/floor": None}}}
        module_cr = await self._skr.mapper.resource("cloud-resources.kyma-project.io/v1beta1", "Infrastructure")
        await self._skr.merge_patch(
            module_cr, names.INFRASTRUCTURE, patch, names.SKR_NAMESPACE, field_manager=names.USER
        )
