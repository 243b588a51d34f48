"""What a change in KCP enqueues in the whole service: the keys that it concerns, in no other queue any key."""

from collections.abc import AsyncIterator, Awaitable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import msgspec
import pytest

from kube_runtime import Change, Client, Controller, Informer, Manager, ObjectKey, Priority, Resource
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
from lifecycle_manager.contract.signals import (
    CAsChanged,
    ClusterReplaced,
    DescriptorFound,
    KymaSignal,
    ObjectChanged,
    ObjectReference,
    SyncResourceApplied,
    WatcherEventReceived,
)
from lifecycle_manager.settings import Settings
from lifecycle_manager.skr import OUR_SECRETS
from lifecycle_manager_api import Manifest, ModuleReleaseMeta, as_document, names
from tests import builders
from tests.waiting import eventually
from tests.world import KCP, open_world

USED = {"uses-regular": ("api", "regular"), "uses-fast": ("api", "fast"), "uses-another": ("nats", "regular")}
ALL = set(USED)
IMPURE = {"watcher by WatcherEventReceived"}
"""Triggers that change state. To be emptied: what a trigger knows travels as a cause."""
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
        """Change an object."""
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


@pytest.fixture
def triggers(monkeypatch: pytest.MonkeyPatch) -> list[Trigger]:
    """The triggers of all controllers that are declared from now on."""
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


@pytest.fixture
async def fleet(triggers: list[Trigger]) -> AsyncIterator[Fleet]:
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
            template = {"apiVersion": "v1", "kind": "ModuleTemplate", "metadata": {"name": f"{module}-1.0.0"}}
            status = {"name": module, "channel": channel, "state": "Ready", "template": template}
            await fleet.apply(builders.kyma(kyma, status={"modules": [status]}))
            await fleet.apply(builders.manifest(module, kyma=kyma, status={"state": "Processing"}))
            await fleet.apply(builders.sync_resource(f"{kyma}-sync", kyma=kyma, module=module))
        for controller in manager.controllers.values():
            controller.connect()
        yield fleet


def released(**given: Any) -> ModuleReleaseMeta:
    return builders.release("api", **given)


async def test_version_bump_of_a_channel_enqueues_the_kymas_that_use_it_before_the_catalogs_of_all(
    fleet: Fleet,
) -> None:
    await fleet.apply(released(regular="1.0.0", fast="2.0.0"))
    assert fleet.take() == {
        "kyma": {"uses-fast"},
        "module-config": {"uses-fast/api"},
        "catalog": ALL,
        "mandatory-modules-deletion": {"ModuleReleaseMeta api"},
    }
    assert fleet.after_what_users_wait_for() == {"catalog"}


async def test_release_that_is_only_touched_enqueues_nothing(fleet: Fleet) -> None:
    await fleet.apply(released(regular="1.0.0", fast="1.0.0"), field_manager="another")
    assert fleet.take() == {}


async def test_descriptor_that_was_found_enqueues_those_who_have_the_template_and_no_catalog(fleet: Fleet) -> None:
    fleet.manager.publish(DescriptorFound(KCP, "api-1.0.0"))
    assert fleet.take() == {
        "kyma": {"uses-regular", "uses-fast"},
        "module-config": {"uses-regular/api", "uses-fast/api"},
        "manifest": {"uses-regular-api", "uses-fast-api"},
    }


async def test_descriptor_of_a_mandatory_template_enqueues_the_installations(fleet: Fleet) -> None:
    await fleet.apply(builders.template("warden", "1.0.0", mandatory=True))
    await fleet.empty()
    fleet.manager.publish(DescriptorFound(KCP, "warden-1.0.0"))
    assert fleet.take() == {"mandatory-modules": ALL}


async def test_mandatory_version_enqueues_the_installations_and_no_catalog(fleet: Fleet) -> None:
    await fleet.apply(builders.release("warden", mandatory="1.0.0"))
    await fleet.empty()
    await fleet.apply(builders.release("warden", mandatory="2.0.0"))
    assert fleet.take() == {"mandatory-modules": ALL, "mandatory-modules-deletion": {"ModuleReleaseMeta warden"}}


async def test_template_of_the_mandatory_version_enqueues_the_installations_and_no_catalog(fleet: Fleet) -> None:
    await fleet.apply(builders.release("warden", mandatory="1.0.0"))
    await fleet.empty()
    await fleet.apply(builders.template("warden", "1.0.0"))
    assert fleet.take() == {"mandatory-modules": ALL, "mandatory-modules-deletion": {"ModuleTemplate warden-1.0.0"}}


async def test_release_that_makes_a_version_mandatory_enqueues_its_templates(fleet: Fleet) -> None:
    """They existed before, as a rule, and nothing else would report that they are mandatory now."""
    for module, version in (("warden", "1.0.0"), ("warden", "2.0.0"), ("nats", "1.0.0")):
        await fleet.apply(builders.template(module, version))
    await fleet.empty()
    await fleet.apply(builders.release("warden", mandatory="1.0.0"))
    assert fleet.take()["mandatory-modules-deletion"] == {
        "ModuleReleaseMeta warden",
        "ModuleTemplate warden-1.0.0",
        "ModuleTemplate warden-2.0.0",
    }


async def test_template_that_becomes_mandatory_enqueues_installations_and_catalogs(fleet: Fleet) -> None:
    await fleet.apply(builders.template("api", "1.0.0", mandatory=True))
    assert fleet.take() == {
        "kyma": {"uses-regular", "uses-fast"},
        "module-config": {"uses-regular/api", "uses-fast/api"},
        "manifest": {"uses-regular-api", "uses-fast-api"},
        "catalog": ALL,
        "mandatory-modules": ALL,
        "mandatory-modules-deletion": {"ModuleTemplate api-1.0.0"},
    }
    assert fleet.after_what_users_wait_for() == {"catalog", "mandatory-modules"}


async def test_changed_crd_of_kymas_enqueues_them_all_after_what_users_wait_for(fleet: Fleet) -> None:
    for short_names in (["ky"], []):
        await fleet.patch(
            CUSTOM_RESOURCE_DEFINITIONS, KYMAS.plural_name, {"spec": {"names": {"shortNames": short_names}}}
        )
        assert fleet.take() == {"kyma": ALL}
        assert fleet.after_what_users_wait_for() == {"kyma"}
        await fleet.empty()


@pytest.mark.parametrize(
    ("change", "options"),
    [
        ({"metadata": {"labels": {"app.kubernetes.io/managed-by": "Helm"}}}, {}),
        ({"status": {"storedVersions": ["v1beta2", "v1beta1"]}}, {"subresource": "status"}),
    ],
    ids=["labels", "status"],
)
async def test_crd_of_kymas_that_is_only_touched_enqueues_nothing(
    fleet: Fleet, change: dict[str, Any], options: dict[str, Any]
) -> None:
    await fleet.patch(CUSTOM_RESOURCE_DEFINITIONS, KYMAS.plural_name, change, **options)
    assert fleet.take() == {}


async def test_access_secret_enqueues_all_of_its_kyma_alone(fleet: Fleet) -> None:
    labels = {names.KYMA_NAME: "uses-fast", names.MANAGED_BY: names.LIFECYCLE_MANAGER}
    document = {"metadata": {"name": "access", "labels": labels}, "data": {}}
    await fleet.seen(SECRETS, fleet.kcp.create(SECRETS, document, KCP, field_manager="broker"))
    of_kyma = {name: {"uses-fast"} for name in ("kyma", "catalog", "mandatory-modules", "skr-token", "watcher")}
    assert fleet.take() == {
        **of_kyma,
        "module-config": {"uses-fast/api"},
        "manifest": {"uses-fast-api"},
        "sync-resource": {"uses-fast-sync"},
    }


async def test_state_of_a_manifest_enqueues_its_kyma_alone(fleet: Fleet) -> None:
    await fleet.patch(MANIFESTS, "uses-fast-api", {"status": {"state": "Ready"}}, subresource="status")
    assert fleet.take() == {"kyma": {"uses-fast"}}


async def test_manifest_whose_state_stays_enqueues_nothing(fleet: Fleet) -> None:
    later = {"lastOperation": {"operation": "", "lastUpdateTime": "2026-11-01T12:00:00Z"}}
    await fleet.patch(MANIFESTS, "uses-fast-api", {"status": later}, subresource="status")
    assert fleet.take() == {}


async def test_mandatory_manifest_that_is_gone_enqueues_the_installation_of_its_kyma(fleet: Fleet) -> None:
    mandatory: Manifest = builders.manifest("warden", kyma="uses-fast", mandatory=True)
    await fleet.apply(mandatory)
    await fleet.empty()
    await fleet.delete(MANIFESTS, mandatory.metadata.name)
    assert fleet.take() == {
        "kyma": {"uses-fast"},
        "mandatory-modules": {"uses-fast"},
        "manifest": {mandatory.metadata.name},
    }


async def test_labels_of_a_kyma_enqueue_it_alone(fleet: Fleet) -> None:
    await fleet.patch(KYMAS, "uses-fast", {"metadata": {"labels": {names.BETA: "true"}}})
    assert fleet.take() == {name: {"uses-fast"} for name in ("kyma", "catalog", "mandatory-modules", "watcher")}


async def test_times_in_the_status_of_a_kyma_enqueue_nothing(fleet: Fleet) -> None:
    later = {"lastOperation": {"operation": "reconciled", "lastUpdateTime": "2026-11-01T12:00:00Z"}}
    await fleet.patch(KYMAS, "uses-fast", {"status": later}, subresource="status")
    assert fleet.take() == {}


async def test_replaced_cluster_enqueues_all_that_belongs_there_but_the_kyma_which_reports_it(fleet: Fleet) -> None:
    fleet.manager.publish(ClusterReplaced("uses-fast"))
    assert fleet.take() == {
        "catalog": {"uses-fast"},
        "watcher": {"uses-fast"},
        "module-config": {"uses-fast/api"},
        "manifest": {"uses-fast-api"},
        "sync-resource": {"uses-fast-sync"},
    }


async def test_each_trigger_finds_the_same_twice_and_changes_no_state(fleet: Fleet, triggers: list[Trigger]) -> None:
    """What a trigger knows travels as a cause: a change may be delivered twice, and an enqueued key may be dropped."""
    options: dict[str, Any] = {"watcher_virtual_services": True, "trusted_proxy_cidrs": ["10.0.0.0/8"]}
    async with lifecycle_manager(Settings(options), fleet.kcp):
        pass
    istio = [each for each in triggers if each.controller.name not in fleet.manager.controllers]
    assert istio
    impure = set()
    for trigger in [*(each for each in triggers if each.controller in fleet.manager.controllers.values()), *istio]:
        is_watch = isinstance(trigger.source, Informer)
        given = list(changes_of(trigger.source) if is_watch else signals_of(trigger.source))
        assert given, f"no sample for {trigger}"
        before = fresh_states(trigger.controller, {key for each in given for key in trigger.finds(each)[0]})
        if any(trigger.finds(each) != trigger.finds(each) for each in given) or states_of(trigger.controller) != before:
            impure.add(str(trigger))
    assert impure == IMPURE


def fresh_states(controller: Controller[Any, Any], keys: Iterable[Hashable]) -> str:
    """Give keys new states, and return these as `states_of` does."""
    controller._states.clear()  # noqa: SLF001
    for key in keys:
        controller.state_or_new(key)
    return states_of(controller)


def states_of(controller: Controller[Any, Any]) -> str:
    """Return the state of all keys as a text, since it may be changed in place."""
    return repr(controller._states)  # noqa: SLF001


def changes_of(informer: Informer[Any]) -> Iterator[Change[Any]]:
    """Yield what can become of each object in the cache, or of one that the fleet does not have."""
    resource = informer.resource
    for item in informer.cache.list() or [sample(resource)]:
        versions = [item, *variants(item)]
        yield Change(None, item)
        yield Change(item, None)
        yield from (Change(old, new) for old, new in product(versions, versions) if old is not new)


def sample(resource: Resource[Any]) -> Any:
    """Return an object of a kind."""
    watcher = {
        "field": "spec",
        "gateway": {"selector": {}},
        "resourceToWatch": {"group": "", "version": "v1", "resource": "configmaps"},
        "serviceInfo": {"name": "one", "namespace": KCP, "port": 443},
    }
    specs = {"moduleconfigs": {"kyma": "uses-fast", "module": "api"}, "watchers": watcher}
    metadata = {"name": "uses-fast-api", "namespace": KCP, "uid": "1", "labels": {names.MODULE_NAME: "api"}}
    document = {"metadata": metadata, "spec": specs.get(resource.plural, {})}
    return document if resource.type is dict else msgspec.convert(document, resource.type)


def variants(item: Any) -> Iterable[Any]:
    """Return an object with another generation, deletion timestamp, labels and annotations."""
    metadata: list[dict[str, Any]] = [
        {"generation": 7},
        {"deletionTimestamp": "2026-11-01T12:00:00Z"},
        {"labels": {names.BETA: "true", names.KYMA_NAME: "uses-fast"}},
        {"annotations": {names.RECONCILE_AT: "2026-11-01T12:00:00Z"}},
    ]
    if isinstance(item, dict):
        return [item | {"metadata": item["metadata"] | each} for each in metadata]
    document = msgspec.json.decode(msgspec.json.encode(item))
    texts = (msgspec.json.encode(document | {"metadata": document["metadata"] | each}) for each in metadata)
    return [msgspec.json.decode(text, type=type(item)) for text in texts]


def signals_of(signal: type[Any]) -> Iterable[Any]:
    """Return signals of a type."""
    if signal is ObjectChanged:
        references = [
            ObjectReference(names.GROUP, "ModuleTemplate", names.SKR_NAMESPACE, "api-1.0.0"),
            ObjectReference(names.GROUP, "Kyma", names.SKR_NAMESPACE, "default"),
            ObjectReference("", "ConfigMap", "default", "one"),
        ]
        return [ObjectChanged("uses-fast", each, "UPDATE") for each in references]
    if signal is DescriptorFound:
        return [DescriptorFound(KCP, "api-1.0.0")]
    if signal is SyncResourceApplied:
        return [SyncResourceApplied(builders.sync_resource("uses-fast-sync", kyma="uses-fast", module="api"))]
    if signal is WatcherEventReceived:
        return [WatcherEventReceived("uses-fast", is_canary=each) for each in (True, False)]
    if signal is CAsChanged:
        return [CAsChanged()]
    return [signal("uses-fast")] if issubclass(signal, KymaSignal) else []
