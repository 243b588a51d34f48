"""What a new cluster costs in requests: the whole service installs one with 5 modules and a catalog of 30 objects.

No workers run. This program takes the keys itself: first all that are due now, and only then the one that is due next.
So the counts depend neither on the machine nor on chance. Where a connection breaks meanwhile, it ends at a time limit.

Run by `python -m benchmarks.new_cluster_requests`.
"""

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec

from benchmarks.figures import Figure, print_all
from kube_runtime import Controller, Manager, Priority, Resource
from kube_runtime.controller.causes import NO_CAUSES, Causes
from lifecycle_manager.app import lifecycle_manager
from lifecycle_manager.contract.resources import KYMAS, MANIFESTS, SECRETS
from lifecycle_manager.contract.signals import WatcherEventReceived
from lifecycle_manager.settings import Settings
from lifecycle_manager.skr.access import OUR_SECRETS
from lifecycle_manager_api import ModuleTemplate, State
from tests import builders
from tests.registries import BlobServer, blob_server, packed
from tests.waiting import eventually
from tests.world import KCP, World, key_of, open_world

MODULES = tuple(f"module-{letter * 3}" for letter in "abcdefghij")
CHOSEN = MODULES[:5]
VERSIONS = ("1.0.0", "1.1.0")
IN_KCP = {
    "create kymas": 1,  # this program itself: the Kyma and its access Secret
    "create secrets": 1 + 1,  # the Watcher's certificate
    "patch kymas": 1,  # the finalizer
    "apply kymas/status": 6,  # the Kyma: begun, modules ready, ready; the Watcher: begun, ready; the catalog
    "apply manifests": 5,
    "apply manifests/status": 10,  # of each, what is about to be applied, and what was
    "create events": 1,
}
IN_SKR = {
    "get discovery": 1,  # the Kyma CR, before there is a CRD
    "get kymas": 2,
    "apply namespaces": 1,
    "apply customresourcedefinitions": 3,
    "create kymas": 1,
    "patch kymas/status": 3,
    "create events": 2,
    "apply moduletemplates": 20,
    "apply modulereleasemetas": 10,
    "apply configmaps": 5,
    "apply priorityclasses": 1,
    "apply serviceaccounts": 1,
    "apply secrets": 1,
    "apply services": 1,
    "apply networkpolicies": 1,
    "apply poddisruptionbudgets": 1,
    "apply deployments": 1,
    "create discovery": 1,  # the name of LM's user in the cluster
    "get validatingwebhookconfigurations": 1,  # as it may be there from before a takeover
    "apply validatingwebhookconfigurations": 1,
}
"""What a new cluster costs. None of it may grow: ten thousand clusters pay for it."""

MAX_SECONDS = 60.0
CONTROLLERS = ("kyma", "catalog", "mandatory-modules", "manifest", "module-config", "watcher")
LAST_DELAY_SECONDS = 10.0
"""Keys that are due later are those of intervals and time limits."""


@dataclass(eq=False)
class Turns:
    """Takes the keys of controllers one after the other, with a time of its own."""

    world: World
    manager: Manager
    now: float = 0.0
    later: dict[tuple[str, Hashable], float] = field(default_factory=dict)

    def take_over(self) -> None:
        """Receive changes; keep what is due later instead of an alarm."""
        for name in CONTROLLERS:
            controller = self.manager.controllers[name]
            controller.queue.add_after = partial(self._add_after, controller)  # type: ignore[method-assign]
            controller.connect()

    async def settle(self) -> None:
        """Reconcile until nothing is due."""
        while True:
            await self._have_caches_current()
            controllers = [self.manager.controllers[name] for name in CONTROLLERS]
            due = next((each for each in controllers if len(each.queue)), None)
            if due is not None:
                await self._reconcile(due)
            elif self.later:
                (name, key), self.now = min(self.later.items(), key=lambda item: item[1])
                del self.later[name, key]
                self.manager.controllers[name].queue.add(key)
            else:
                return

    async def _reconcile(self, controller: Controller[Any, Any]) -> None:
        key = await controller.queue.get()
        causes = controller.queue.take_causes(key)
        result = await controller.reconcile_now(key, *causes)
        controller.queue.done(key)
        if result.requeue_after is not None:
            self._add_after(controller, key, result.requeue_after)

    def _add_after(
        self,
        controller: Controller[Any, Any],
        key: Hashable,
        seconds: float,
        priority: Priority = Priority.RESYNC,
        causes: Causes = NO_CAUSES,
    ) -> None:
        if seconds <= 0:
            controller.queue.add(key, priority, causes)
        elif seconds <= LAST_DELAY_SECONDS:
            controller.queue.keep_causes(key, causes)
            place = (controller.name, key)
            self.later[place] = min(self.later.get(place, self.now + seconds), self.now + seconds)

    async def _have_caches_current(self) -> None:
        for resource in (KYMAS, MANIFESTS):
            await eventually(partial(self._is_current, resource), what=f"{resource.plural} are current", every=0.001)
        await eventually(partial(self._is_current, SECRETS, OUR_SECRETS), what="Secrets are current", every=0.001)

    async def _is_current(self, resource: Resource[Any], selector: str | None = None) -> bool:
        items = (await self.world.kcp.list(resource, KCP, label_selector=selector)).items
        cached = self.manager.informer(resource, label_selector=selector).cache.list()
        return {*map(resource.version_of, items)} == {*map(resource.version_of, cached)}


def template(layers: BlobServer, module: str, version: str) -> ModuleTemplate:
    """Return a ModuleTemplate with a module of one ConfigMap."""
    content = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": module}, "data": {"version": version}}
    digest = layers.hold(packed({"module.yaml": msgspec.json.encode(content)}))
    found = builders.template(module, version, data=None, enable_module_config=False)
    described = builders.descriptor(module, version)
    described["component"]["repositoryContexts"] = [{"baseUrl": f"http://{layers.host}/modules"}]
    described["component"]["resources"] = [{"name": "raw-manifest", "access": {"localReference": digest}}]
    spec = msgspec.structs.replace(found.spec, descriptor=msgspec.Raw(msgspec.json.encode(described)))
    return msgspec.structs.replace(found, spec=spec)


@asynccontextmanager
async def catalog() -> AsyncIterator[World]:
    """Open a control plane with a catalog of 30 objects, before its first cluster."""
    async with blob_server() as layers, open_world() as world:
        for module in MODULES:
            await world.offer(*(template(layers, module, version) for version in VERSIONS))
            await world.offer(builders.release(module, regular=VERSIONS[0], fast=VERSIONS[1]))
        yield world


@asynccontextmanager
async def service(world: World) -> AsyncIterator[Turns]:
    """Start the whole service."""
    options: dict[str, Any] = {
        "health_probe_bind_address": ":0",
        "metrics_bind_address": ":0",
        "allow_insecure_kubeconfigs": True,
        "watcher_canary_interval": "10000h",
    }
    async with lifecycle_manager(Settings(options), world.kcp) as manager, manager.background():
        await manager.start()
        turns = Turns(world, manager)
        turns.take_over()
        manager.begin(manager.owners(), ())
        yield turns


def requests(world: World, since: int) -> dict[str, Counter[str]]:
    """Return how many requests of each kind each cluster got, without those of this program and of watches."""
    counted: dict[str, Counter[str]] = {"kcp": Counter(), "demo": Counter()}
    for each in world.simulation.records:
        if each.number > since and each.verb != "watch" and not (each.cluster == "kcp" and each.verb == "list"):
            kind = each.resource.partition(".")[0] or "discovery"
            counted[each.cluster][f"{each.verb} {kind}{'/' if each.subresource else ''}{each.subresource}"] += 1
    return counted


async def install(turns: Turns) -> None:
    """Have a new cluster with five modules until its Kyma is ready."""
    await turns.world.register("demo", *CHOSEN)
    await turns.settle()
    turns.manager.publish(WatcherEventReceived("demo", is_canary=False, at=turns.manager.clock.monotonic()))
    await turns.settle()
    await eventually(lambda: not turns.manager.events._unsent, what="Events are sent")  # noqa: SLF001
    kyma = turns.manager.informer(KYMAS).get(key_of("demo"))
    assert kyma is not None
    assert kyma.status.state is State.READY


async def _measure() -> list[Figure]:
    async with asyncio.timeout(MAX_SECONDS), catalog() as world, service(world) as turns:
        since = world.requests
        await install(turns)
        counted = requests(world, since)
    return [_figure("kcp", counted["kcp"], IN_KCP), _figure("skr", counted["demo"], IN_SKR)]


def _figure(side: str, counted: Counter[str], expected: dict[str, int]) -> Figure:
    more = counted - Counter(expected)
    if more:
        print(f"{side}: more than expected of {dict(more)}", file=sys.stderr)
    bound = sum(expected.values())
    return Figure(
        name=f"new_cluster_requests_{side}",
        unit="requests",
        value=sum(counted.values()),
        bar=f"of no kind more than expected, which are {bound}",
        met=not more,
    )


def main() -> int:
    """Count and print the figures; return 1 if there are more requests of a kind than expected."""
    return print_all(asyncio.run(_measure()))


if __name__ == "__main__":
    sys.exit(main())
