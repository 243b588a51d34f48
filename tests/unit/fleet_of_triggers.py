"""A fleet of Kymas, and what changes in it enqueue in the whole service, for tests of triggers."""

from collections.abc import AsyncIterator, Awaitable, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from kube_runtime import Client, Controller, Informer, Manager, ObjectKey, Priority, Resource
from lifecycle_manager.app import lifecycle_manager
from lifecycle_manager.contract.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    DATED_RELEASE_METAS,
    KYMAS,
    MANIFESTS,
    MODULE_TEMPLATES,
    SECRETS,
    SYNC_RESOURCES,
)
from lifecycle_manager.settings import Settings
from lifecycle_manager.skr.access import OUR_SECRETS
from lifecycle_manager_api import as_document
from tests import builders
from tests.waiting import eventually
from tests.world import KCP, open_world

USED = {"uses-regular": ("api", "regular"), "uses-fast": ("api", "fast"), "uses-another": ("nats", "regular")}
ALL = set(USED)
CRD_SELECTOR = f"metadata.name={KYMAS.plural_name}"
RESOURCES: dict[str, Resource[Any]] = {
    each.kind: each for each in (KYMAS, MANIFESTS, SYNC_RESOURCES, MODULE_TEMPLATES, DATED_RELEASE_METAS)
}
SELECTORS: dict[str, dict[str, Any]] = {
    SECRETS.plural: {"label_selector": OUR_SECRETS},
    CUSTOM_RESOURCE_DEFINITIONS.plural: {"field_selector": CRD_SELECTOR, "required": False},
    SYNC_RESOURCES.plural: {"namespace": None},
}


@dataclass(frozen=True)
class Fleet:
    """Three Kymas with a module each, and the service before any of its controllers takes a key."""

    kcp: Client
    manager: Manager

    async def seen(self, resource: Resource[Any], write: Awaitable[Any]) -> None:
        """Write an object, and wait until the caches have it: by then its keys are enqueued."""
        informer = self.manager.informer(resource, **SELECTORS.get(resource.plural, {}))
        before = {*map(resource.version_of, informer.cache.list())}
        written = await write
        key, version = resource.key_of(written), resource.version_of(written)
        assert version not in before, "the write changes nothing"

        def is_current() -> bool:
            cached = informer.cache.get(key)
            return cached is not None and resource.version_of(cached) == version

        await eventually(is_current, what=f"{resource.plural} have {key.name} in version {version}")

    async def apply(self, item: Any, *, field_manager: str = "test") -> None:
        """Apply an object as its builder made it, then its status."""
        resource, name, document = RESOURCES[item.KIND], item.metadata.name, builders.as_written(item)
        await self.seen(resource, self.kcp.apply(resource, name, document, KCP, field_manager=field_manager))
        if status := as_document(item).get("status"):
            await self.patch(resource, name, {"status": status}, subresource="status")

    async def patch(self, resource: Resource[Any], name: str, content: Any, **options: Any) -> None:
        namespace = KCP if resource.namespaced else None
        await self.seen(resource, self.kcp.merge_patch(resource, name, content, namespace, **options))

    async def delete(self, resource: Resource[Any], name: str) -> None:
        """Delete an object, and wait until the cache has lost it."""
        await self.kcp.delete(resource, name, KCP)
        cache = self.manager.informer(resource).cache
        await eventually(lambda: cache.get(ObjectKey(KCP, name)) is None, what=f"{name} is gone")

    def take(self) -> dict[str, set[str]]:
        """Return the keys in all queues, those with a delay included, by the names of the controllers."""
        queues = {name: controller.queue.keys() for name, controller in self.manager.controllers.items()}
        return {name: {str(key).replace(f"{KCP}/", "") for key in keys} for name, keys in queues.items() if keys}

    async def empty(self) -> None:
        """Take all keys out of the queues."""
        for controller in self.manager.controllers.values():
            while controller.queue.keys():
                controller.queue.done(await controller.queue.get())

    def after_what_users_wait_for(self) -> set[str]:
        """Return the controllers all of whose keys have the least priority."""
        controllers = self.manager.controllers.items()
        return {name for name, each in controllers if len(each.queue) and not each.queue.holds(Priority.CHANGE)}


@dataclass(frozen=True, eq=False)
class Trigger:
    """A call of `watches` or `receives`: `source` is the informer, or the type of the signal."""

    controller: Controller[Any, Any]
    source: Any
    options: dict[str, Any]

    def __str__(self) -> str:
        source = self.source.resource.plural if isinstance(self.source, Informer) else self.source.__name__
        return f"{self.controller.name} by {source}"

    def finds(self, given: Any) -> tuple[list[Hashable], object, object]:
        """Return the keys and the cause that a change or a signal leads to, and whether it matters."""
        to, when, cause = (self.options.get(name) for name in ("to", "when", "cause"))
        matters = when is None or when(given)
        return list(to(given)) if to else [], cause(given) if callable(cause) else cause, matters


def recorded_triggers(monkeypatch: pytest.MonkeyPatch) -> list[Trigger]:
    """Return the triggers that are declared from now on."""
    found: list[Trigger] = []
    watches, receives = Controller.watches, Controller.receives

    def record_watch(controller: Any, source: Any, **options: Any) -> None:
        informer = source if isinstance(source, Informer) else controller._sources.informer(source)  # noqa: SLF001
        found.append(Trigger(controller, informer, options))
        watches(controller, source, **options)

    def record_signal(controller: Any, signal: Any, **options: Any) -> None:
        found.append(Trigger(controller, signal, options))
        receives(controller, signal, **options)

    monkeypatch.setattr(Controller, "watches", record_watch)
    monkeypatch.setattr(Controller, "receives", record_signal)
    return found


@asynccontextmanager
async def open_fleet() -> AsyncIterator[Fleet]:
    options: dict[str, Any] = {"health_probe_bind_address": ":0", "metrics_bind_address": ":0"}
    async with (
        open_world() as world,
        lifecycle_manager(Settings(options), world.kcp) as manager,
        manager.background(),
    ):
        await manager.start()
        fleet = Fleet(world.kcp, manager)
        await fleet.apply(builders.release("api", regular="1.0.0", fast="1.0.0"))
        await fleet.apply(builders.template("api", "1.0.0"))
        for kyma, (module, channel) in USED.items():
            metadata = {"name": f"{module}-1.0.0", "namespace": KCP}
            template = {"apiVersion": "v1", "kind": "ModuleTemplate", "metadata": metadata}
            status = {"name": module, "channel": channel, "state": "Ready", "template": template}
            await fleet.apply(builders.kyma(kyma, status={"modules": [status]}))
            await fleet.apply(builders.manifest(module, kyma=kyma, status={"state": "Processing"}))
            await fleet.apply(builders.sync_resource(f"{kyma}-sync", kyma=kyma, module=module))
        for controller in manager.controllers.values():
            controller.connect()
        yield fleet
