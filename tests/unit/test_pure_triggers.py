"""What triggers a controller is pure: it finds the same keys and causes each time, and changes no state."""

from collections.abc import Hashable, Iterable, Iterator
from itertools import product
from typing import Any

import msgspec
import pytest

from kube_runtime import Change, Controller, Informer, Resource
from lifecycle_manager.app import lifecycle_manager
from lifecycle_manager.contract.signals import (
    CAsChanged,
    DescriptorFound,
    KymaSignal,
    ModuleConfigsWritten,
    ModulesProtected,
    ObjectChanged,
    ObjectReference,
    SyncResourceApplied,
    WatcherEventReceived,
)
from lifecycle_manager.settings import Settings
from lifecycle_manager_api import names
from tests import builders
from tests.unit.fleet_of_triggers import Trigger, open_fleet, recorded_triggers
from tests.world import KCP


@pytest.fixture
def triggers(monkeypatch: pytest.MonkeyPatch) -> list[Trigger]:
    return recorded_triggers(monkeypatch)


async def test_each_trigger_finds_the_same_twice_and_changes_no_state(triggers: list[Trigger]) -> None:
    """What a trigger knows travels as a cause: a change may be delivered twice, and an enqueued key may be dropped."""
    options: dict[str, Any] = {"watcher_virtual_services": True, "trusted_proxy_cidrs": ["10.0.0.0/8"]}
    async with open_fleet() as fleet, lifecycle_manager(Settings(options), fleet.kcp):
        known = fleet.manager.controllers.values()
        istio = [each for each in triggers if each.controller.name not in fleet.manager.controllers]
        assert istio
        impure = {str(each) for each in triggers if (each.controller in known or each in istio) and is_impure(each)}
    assert not impure


def is_impure(trigger: Trigger) -> bool:
    """Tell whether a trigger finds something else the second time, or changes the state of a key."""
    is_watch = isinstance(trigger.source, Informer)
    given = list(changes_of(trigger.source) if is_watch else signals_of(trigger.source))
    assert given, f"no sample for {trigger}"
    before = fresh_states(trigger.controller, {key for each in given for key in trigger.finds(each)[0]})
    is_same = all(trigger.finds(each) == trigger.finds(each) for each in given)
    return not is_same or states_of(trigger.controller) != before


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
    watcher = {
        "field": "spec",
        "gateway": {"selector": {}},
        "resourceToWatch": {"group": "", "version": "v1", "resource": "configmaps"},
        "serviceInfo": {"name": "one", "namespace": KCP, "port": 443},
    }
    rollout: dict[str, Any] = {"moduleName": "api", "channel": "fast", "version": "1.0.0", "strategy": {"waves": []}}
    specs: dict[str, dict[str, Any]] = {
        "moduleconfigs": {"kyma": "uses-fast", "module": "api"},
        "modulerollouts": rollout,
        "rolloutstrategies": rollout["strategy"],
        "watchers": watcher,
    }
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
    references = [
        ObjectReference(names.GROUP, "ModuleTemplate", names.SKR_NAMESPACE, "api-1.0.0"),
        ObjectReference(names.GROUP, "Kyma", names.SKR_NAMESPACE, "default"),
        ObjectReference("", "ConfigMap", "default", "one"),
    ]
    applied = builders.sync_resource("uses-fast-sync", kyma="uses-fast", module="api")
    given: dict[type[Any], list[Any]] = {
        CAsChanged: [CAsChanged()],
        DescriptorFound: [DescriptorFound(KCP, "api-1.0.0")],
        ModuleConfigsWritten: [ModuleConfigsWritten("uses-fast", "api", problem) for problem in ("", "forbidden")],
        ModulesProtected: [ModulesProtected()],
        ObjectChanged: [ObjectChanged("uses-fast", each, "UPDATE") for each in references],
        SyncResourceApplied: [SyncResourceApplied(applied)],
        WatcherEventReceived: [WatcherEventReceived("uses-fast", is_canary=each, at=0.0) for each in (True, False)],
    }
    return given.get(signal) or ([signal("uses-fast")] if issubclass(signal, KymaSignal) else [])
