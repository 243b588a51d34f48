"""An exception that nothing foresaw, in any domain: it becomes a condition without the text of the exception."""

import contextlib
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest

from kube_runtime import KubeError, Manager, ObjectKey, Resource
from kube_simulation import Refuse, Refused
from lifecycle_manager.app import lifecycle_manager
from lifecycle_manager.contract.resources import KYMAS, MANIFESTS, MODULE_TEMPLATES, SYNC_RESOURCES
from lifecycle_manager.mandatory_modules import ReleaseKey
from lifecycle_manager.settings import Settings
from lifecycle_manager.skr.failure import INTERNAL_ERROR
from lifecycle_manager_api import Condition, State, find
from tests import builders
from tests.waiting import eventually
from tests.world import KCP, World, open_world

DOMAINS: dict[str, tuple[Resource[Any], str, str, str, str]] = {
    "kyma": (KYMAS, "demo", "Ready", "kyma.snapshot.read_skr", "kyma.controller.wanted_of"),
    "catalog": (
        KYMAS,
        "demo",
        "ModuleCatalog",
        "catalog_sync.snapshot.CatalogSnapshot",
        "catalog_sync.rules.pause",
    ),
    "mandatory-modules": (
        KYMAS,
        "demo",
        "MandatoryModules",
        "mandatory_modules.snapshot.InstallationSnapshot",
        "mandatory_modules.rules.changes_of",
    ),
    "watcher": (KYMAS, "demo", "SKRWebhook", "skr_webhook.snapshot.WatcherSnapshot", "skr_webhook.rules.is_managed"),
    "manifest": (
        MANIFESTS,
        "demo-api",
        "Ready",
        "module_installation.snapshot.known_inventory",
        "module_installation.controller.is_left_alone",
    ),
    "sync-resource": (
        SYNC_RESOURCES,
        "demo-api",
        "Ready",
        "sync_resource.snapshot.known_inventory",
        "sync_resource.rules.is_paused",
    ),
}
SECRET = "a secret of the user"
OWN_OBJECT = """\
{apiVersion: v1, kind: Namespace, metadata: {name: api}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: own, namespace: api}}
"""


def fail(*_: object, **__: object) -> None:
    raise ValueError(SECRET)


class Service:
    """The whole service on simulated clusters, driven key by key."""

    def __init__(self, world: World, manager: Manager) -> None:
        self.world = world
        self.manager = manager

    async def reconcile(self, controller: str, key: Any) -> None:
        for resource in (KYMAS, MANIFESTS, SYNC_RESOURCES):
            await eventually(partial(self._is_current, resource), what=f"{resource.plural} are current")
        await self.manager.controllers[controller].reconcile_now(key)

    async def condition(self, resource: Resource[Any], name: str, kind: str) -> Condition | None:
        return find((await self.world.kcp.get(resource, name, KCP)).status.conditions, kind)

    async def _is_current(self, resource: Resource[Any]) -> bool:
        namespace = None if resource is SYNC_RESOURCES else KCP
        items = (await self.world.kcp.list(resource, namespace)).items
        cached = self.manager.informer(resource, namespace=namespace).list()
        return {*map(resource.version_of, items)} == {*map(resource.version_of, cached)}


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    options: dict[str, Any] = {
        "health_probe_bind_address": ":0",
        "metrics_bind_address": ":0",
        "allow_insecure_kubeconfigs": True,
        "allow_unprotected_modules": True,
        "module_upgrade_rollout_max_delay": "240h",  # the Manifest stays in its version
    }
    async with (
        open_world() as world,
        lifecycle_manager(Settings(options), world.kcp) as manager,
        manager.background(),
    ):
        await manager.start()
        await world.register("demo", "api")
        await world.offer(builders.template("api", "1.0.0"), builders.release("api", regular="1.0.0"))
        await world.create(builders.manifest("api"), builders.sync_resource("demo-api", module="api", text=OWN_OBJECT))
        it = Service(world, manager)
        for _ in range(3):
            await it.reconcile("kyma", ObjectKey(KCP, "demo"))
        yield it


@pytest.mark.parametrize("part", [3, 4], ids=["snapshot", "plan"])
@pytest.mark.parametrize("domain", DOMAINS)
async def test_unforeseen_exception_becomes_a_condition_without_its_text(
    service: Service, domain: str, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    resource, name, kind, *_ = DOMAINS[domain]
    key = ObjectKey(KCP, name)
    with monkeypatch.context() as patch:
        patch.setattr(f"lifecycle_manager.{DOMAINS[domain][part]}", fail)
        for _ in range(2):  # what is reported already is not written again
            with pytest.raises(ValueError, match=SECRET):
                await service.reconcile(domain, key)
    reported = await service.condition(resource, name, kind)
    assert reported is not None
    assert (reported.status, reported.reason) in {("False", INTERNAL_ERROR), ("Unknown", INTERNAL_ERROR)}
    assert "ValueError" in reported.message
    whole = await service.world.kcp.get(resource, name, KCP)
    assert SECRET not in repr(whole)
    if domain in {"kyma", "manifest", "sync-resource"}:
        assert whole.status.state is State.ERROR
    await service.manager.controllers[domain].reconcile_now(key)
    again = await service.condition(resource, name, kind)
    assert again is not None
    assert again.reason != INTERNAL_ERROR


FULL = Refused(500, "InternalError", "etcdserver: mvcc: database space exceeded")
BUSY = Refused(429, "TooManyRequests", "too many requests", retry_after_seconds=60)


@pytest.mark.parametrize("refused", [FULL, BUSY], ids=["full etcd", "429"])
@pytest.mark.parametrize("cluster", ["kcp", "demo"])
@pytest.mark.parametrize("domain", DOMAINS)
async def test_full_etcd_is_foreseen_and_reported(
    service: Service, domain: str, cluster: str, refused: Refused
) -> None:
    resource, name, kind, *_ = DOMAINS[domain]
    with service.world.cluster(cluster).ruled_by(Refuse(lambda it: it.is_write, refused=refused)):
        for _ in range(2):
            with contextlib.suppress(KubeError):  # one line in the log: no other exception is expected
                await service.reconcile(domain, ObjectKey(KCP, name))
    reported = await service.condition(resource, name, kind)
    if cluster == "demo" and domain in {"catalog", "watcher", "sync-resource"}:
        assert reported is not None
        assert refused.message in reported.message
    await service.reconcile(domain, ObjectKey(KCP, name))
    again = await service.condition(resource, name, kind)
    assert again is None or (again.reason != INTERNAL_ERROR and refused.message not in again.message)


async def test_unforeseen_exception_with_a_release_becomes_an_event(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded: list[tuple[Any, ...]] = []
    monkeypatch.setattr(service.manager.events, "record", lambda *given, **_: recorded.append(given))
    monkeypatch.setattr("lifecycle_manager.mandatory_modules.rules.is_held", fail)
    key = ReleaseKey("ModuleTemplate", KCP, "api-1.0.0")
    informer = service.manager.informer(MODULE_TEMPLATES)
    await eventually(lambda: informer.get(ObjectKey(KCP, key.name)) is not None, what="the template is cached")
    with pytest.raises(ValueError, match=SECRET):
        await service.manager.controllers["mandatory-modules-deletion"].reconcile_now(key)
    assert [given[2] for given in recorded] == [INTERNAL_ERROR]
    assert SECRET not in repr(recorded)


async def test_report_that_fails_does_not_replace_the_exception(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lifecycle_manager.sync_resource.rules.is_paused", fail)
    monkeypatch.setattr("lifecycle_manager.object_set.engine.failure_of", _fail_otherwise)
    with pytest.raises(ValueError, match=SECRET):
        await service.reconcile("sync-resource", ObjectKey(KCP, "demo-api"))


def _fail_otherwise(_: Exception) -> None:
    raise KeyError("another")
