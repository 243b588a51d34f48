"""Which module has which namespace, and that its moves delete nothing in an SKR, in whatever order anything happens."""

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kube_runtime import ApplyResult, Change, InventoryEntry, ObjectOutcome
from lifecycle_manager.contract.signals import ObjectReference
from lifecycle_manager.contract.verdict import belongs_to
from lifecycle_manager.module_config import plan as configs_planned
from lifecycle_manager.module_config.snapshot import ModuleCr, Move, Reading
from lifecycle_manager.module_config.snapshot import Snapshot as ConfigsSnapshot
from lifecycle_manager.module_namespaces import (
    Assignment,
    Namespace,
    RefusedReason,
    Standing,
    assigned,
    assignment_changed,
    modules_of,
)
from lifecycle_manager.object_set.ownership import Claim, claimed_earlier, place_of
from lifecycle_manager.sync_resource import plan as planned
from lifecycle_manager.sync_resource.intent import begun, inventory_of
from lifecycle_manager.sync_resource.snapshot import Placement, Snapshot, rank_among, read_text, since, unserved
from lifecycle_manager_api import ModuleConfig, SyncResource, names
from lifecycle_manager_api import ObjectReference as ResourceReference
from tests import builders
from tests.policies import anything

KCP, OWN, SKR = names.KCP_NAMESPACE, "module-cloud-resources", names.SKR_NAMESPACE
MODULE = "cloud-resources"
TIME = "2026-11-01T12:00:00Z"
Key = tuple[str, str]


def namespace(name: str = OWN, module: str = MODULE, *, created: str = TIME, **metadata: Any) -> Namespace:
    """Return a labelled namespace."""
    given = {"name": name, "labels": {names.MODULE_NAME: module}, "creationTimestamp": created}
    return msgspec.convert({"metadata": given | metadata}, Namespace)


RETIRED = {names.RETIRED: "true"}


def test_module_without_a_namespace_of_its_own_has_that_of_the_lifecycle_manager() -> None:
    assignment = assigned([namespace(module="telemetry")])
    assert assignment.namespace_of(MODULE) == KCP
    assert assignment.standing(builders.sync_resource(namespace=KCP)) is Standing.CURRENT
    assert assignment.standing(builders.sync_resource(namespace=OWN)) is Standing.OTHER_MODULE
    assert assignment.standing(builders.sync_resource(namespace="foreign")) is Standing.UNKNOWN


def test_module_with_a_namespace_of_its_own_leaves_that_of_the_lifecycle_manager() -> None:
    assignment = assigned([namespace()])
    assert assignment.namespace_of(MODULE) == OWN
    assert assignment.standing(builders.module_config(namespace=OWN)) is Standing.CURRENT
    assert assignment.standing(builders.module_config(namespace=KCP)) is Standing.FORMER
    assert assignment.standing(builders.module_config(namespace=KCP, module="telemetry")) is Standing.CURRENT


@pytest.mark.parametrize("leaving", [{"annotations": RETIRED}, {"deletionTimestamp": TIME}])
def test_namespace_that_is_retired_or_deleted_is_left(leaving: dict[str, Any]) -> None:
    assignment = assigned([namespace(**leaving), namespace("newer", created="2026-11-02T12:00:00Z")])
    assert assignment.namespace_of(MODULE) == "newer"
    assert assignment.standing(builders.module_config(namespace=OWN)) is Standing.FORMER


def test_second_namespace_for_a_module_and_invalid_labels_have_no_effect() -> None:
    second = namespace("a-later-one", created="2026-11-02T12:00:00Z")
    assignment = assigned([second, namespace(), namespace("odd", "Tele_metry"), namespace(KCP, "telemetry")])
    assert assignment.namespace_of(MODULE) == OWN
    assert assignment.namespace_of("telemetry") == KCP
    assert assignment.refused == {
        "a-later-one": RefusedReason.DUPLICATE,
        "odd": RefusedReason.NAME_INVALID,
        KCP: RefusedReason.RESERVED,
    }
    assert assignment.standing(builders.sync_resource(namespace="a-later-one")) is Standing.UNKNOWN


def test_only_changes_of_the_module_or_of_its_leaving_matter() -> None:
    plain = namespace()
    assert not assignment_changed(Change(plain, namespace(resourceVersion="9", annotations={"a": "b"})))
    for other in (None, namespace(module="telemetry"), namespace(annotations=RETIRED)):
        assert assignment_changed(Change(plain, other))
    assert modules_of(Change(plain, namespace(module="telemetry"))) == {MODULE, "telemetry"}


def config_map(name: str) -> str:
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: {SKR}}}\n"


MODULE_CRS = {"default": ("a", "b"), "second": ("c", "d")}
"""The Module CRs of the user, with the objects that the Module Manager makes of each: one SyncResource each."""


@dataclass
class Model:
    """KCP, an SKR and two Module Managers; each method is what one process does in one turn."""

    assignment: Assignment = field(default_factory=Assignment)
    configs: dict[Key, ModuleConfig] = field(default_factory=dict)
    sync_resources: dict[Key, SyncResource] = field(default_factory=dict)
    skr: dict[str, tuple[int, Key]] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)
    reading: Reading = field(default_factory=lambda: reading_of(*MODULE_CRS))
    uids: Any = field(default_factory=lambda: count(1))

    def assign(self, *labelled: Namespace) -> None:
        """Have these labelled namespaces, unless the own one is still being deleted."""
        is_left = not self._in(self.configs, OWN) and not self._in(self.sync_resources, OWN)
        if is_left or OWN not in self.assignment.deleted:
            self.assignment = assigned(labelled)

    def delete_namespace(self) -> None:
        """Delete the module's own namespace with all that is in it."""
        self.assign(namespace(deletionTimestamp=TIME))
        for parts in (self.configs, self.sync_resources):
            for key in [each for each in parts if each[0] == OWN]:
                self.mark(parts, key)

    def synchronize(self) -> None:
        """Write and delete ModuleConfigs as LM does for the module."""
        current = self.assignment.namespace_of(MODULE)
        formers = {each.metadata.namespace for each in self.configs.values()} - {current}
        for where in (current, *sorted(formers)):
            move = Move(self._in(self.configs, current), self._in(self.sync_resources, current), ())
            move = replace(move, left=self._in(self.sync_resources, where))
            seen = ConfigsSnapshot(
                "demo",
                MODULE,
                where,
                self._in(self.configs, where),
                self.reading,
                move=None if where == current else move,
            )
            for step in configs_planned.plan(seen):
                match step:
                    case configs_planned.WriteModuleConfig():
                        assert where == current or (where, step.name) in self.configs
                        self.configs[where, step.name] = builders.module_config(
                            step.name,
                            namespace=where,
                            uid=f"uid-{next(self.uids)}",
                            spec={"resource": step.text, "resourceRef": msgspec.to_builtins(step.reference)},
                        )
                    case configs_planned.DeleteModuleConfig():
                        self.mark(self.configs, (where, step.name))

    def collect(self) -> None:
        """Delete what belongs to a ModuleConfig that is being deleted, then that."""
        for key, config in list(self.configs.items()):
            if config.metadata.being_deleted:
                owned = [each for each, it in self.sync_resources.items() if belongs_to(config, it)]
                for each in owned:
                    self.mark(self.sync_resources, each)
                if not owned:
                    del self.configs[key]

    def manage(self, where: str, part: int) -> None:
        """Write one of the two SyncResources of each ModuleConfig in a namespace, as its Module Manager does."""
        for (found, name), config in list(self.configs.items()):
            if found != where or config.metadata.being_deleted:
                continue
            key = (where, f"{name}-{part}")
            if key not in self.sync_resources:
                owner = {
                    "apiVersion": config.api_version,
                    "kind": config.kind,
                    "name": name,
                    "uid": config.metadata.uid,
                }
                reference = config.spec.resource_ref
                assert reference is not None
                self.sync_resources[key] = builders.sync_resource(
                    key[1],
                    namespace=where,
                    text=config_map(MODULE_CRS[reference.name][part]),
                    uid=f"uid-{next(self.uids)}",
                    creationTimestamp=f"2026-11-01T12:00:{next(self.uids) % 60:02}Z",
                    generation=1,
                    ownerReferences=[owner],
                )
            status = msgspec.convert({"state": "Processing"}, type(config.status))
            self.configs[found, name] = msgspec.structs.replace(config, status=status)

    def reconcile(self, key: Key) -> None:
        """Take the steps of a SyncResource."""
        resource = self.sync_resources.get(key)
        if resource is None or self.assignment.standing(resource) is Standing.UNKNOWN:
            return
        seen = self._snapshot(resource)
        while True:
            step = planned.plan(seen)
            match step:
                case planned.ResolveScopes():
                    seen = replace(seen, scopes={})
                case planned.RecordIntent(objects, inventory):
                    wanted = {InventoryEntry("", "v1", "ConfigMap", SKR, each.name) for each in objects}
                    status = begun(resource, tuple(sorted({*inventory, *wanted})))
                    resource = self.sync_resources[key] = msgspec.structs.replace(resource, status=status)
                    seen = replace(seen, resource=resource, recorded=True)
                case planned.ApplyObjects(objects, inventory):
                    for each in objects:
                        uid, _ = self.skr.get(each.name, (next(self.uids), key))
                        self.skr[each.name] = (uid, key)
                    live = {"metadata": {"name": "any"}}
                    entries = [InventoryEntry("", "v1", "ConfigMap", SKR, each.name) for each in objects]
                    outcomes = [ObjectOutcome(each, index, "changed", live=live) for index, each in enumerate(entries)]
                    kept = [ObjectOutcome(each, None, "kept") for each in inventory if each not in entries]
                    after = tuple(sorted({*inventory, *entries}))
                    seen = replace(seen, applied=ApplyResult((*outcomes, *kept), after))
                case planned.PruneObjects(entries=entries):
                    self._delete(entries, key)
                    seen = replace(seen, pruned=True)
                case planned.DeleteObjects(inventory):
                    self._delete(inventory, key)
                    seen = replace(seen, removed=ApplyResult((), ()))
                case planned.Done(status):
                    self.sync_resources[key] = msgspec.structs.replace(resource, status=status)
                    return
                case _:
                    del self.sync_resources[key]
                    return

    def settle(self) -> None:
        """Let everybody work until nothing changes any more."""
        before: Any = None
        for _ in range(20):
            now = (dict(self.configs), dict(self.sync_resources), dict(self.skr))
            if now == before:
                return
            before = now
            self.synchronize()
            for where in (KCP, OWN):
                for part in range(2):
                    self.manage(where, part)
            for key in list(self.sync_resources):
                self.reconcile(key)
            self.collect()
        raise AssertionError("it does not come to rest")

    def _snapshot(self, resource: SyncResource) -> Snapshot:
        text = read_text(resource.spec.resource)
        assert isinstance(text, tuple)
        known = inventory_of(resource)
        places = {(each.group, each.kind, each.name) for each in known} | set(map(place_of, text))
        claims = tuple(
            Claim(entry, *rank)
            for other in self.sync_resources.values()
            if (rank := rank_among(resource, other, self.assignment)) is not None
            for entry in inventory_of(other)
            if (entry.group, entry.kind, entry.name) in places
        )
        lost = claimed_earlier(known, since(resource), claims)
        wanted = self.assignment.namespace_of(MODULE)
        is_deleted = resource.metadata.namespace in self.assignment.deleted
        placement = Placement(self.assignment.standing(resource), wanted, is_deleted)
        is_leaving = placement.standing is Standing.FORMER and resource.metadata.being_deleted
        parts = (self.configs.values(), self.sync_resources.values())
        return Snapshot(
            resource,
            builders.kyma(status={"state": "Ready", "modules": [{"name": MODULE}]}),
            builders.NOW,
            tuple(each for each in known if each not in lost),
            text,
            rules=anything(),
            claims=claims,
            placement=placement,
            unserved=unserved(resource, wanted, *parts) if is_leaving else (),
        )

    def _delete(self, entries: Iterable[InventoryEntry], owner: Key) -> None:
        for each in entries:
            if each.name in self.skr and self.skr[each.name][1] == owner:
                del self.skr[each.name]
                self.deleted.append(each.name)

    def _in(self, parts: dict[Key, Any], where: str) -> tuple[Any, ...]:
        return tuple(each for (found, _), each in parts.items() if found == where)

    def mark(self, parts: dict[Key, Any], key: Key) -> None:
        if parts[key].metadata.being_deleted:
            return
        metadata = msgspec.structs.replace(parts[key].metadata, deletion_timestamp=builders.NOW)
        parts[key] = msgspec.structs.replace(parts[key], metadata=metadata)


def module_cr(name: str) -> ModuleCr:
    group, version, kind = "cloud-resources.kyma-project.io", "v1beta1", "Infrastructure"
    reference = ResourceReference(
        api_version=f"{group}/{version}", kind=kind, namespace=SKR, name=name, uid=name, resource_version="7"
    )
    return ModuleCr(ObjectReference(group, kind, SKR, name), reference, text=name)


def reading_of(*module_crs: str) -> Reading:
    """Return a complete reading with these Module CRs."""
    found = {each.source: each for each in map(module_cr, module_crs)}
    return Reading(module_cr("default").source, found, complete=True)


def settled() -> Model:
    model = Model()
    model.settle()
    return model


SETTLED = settled()


def managing(where: str, part: int) -> Callable[[Model], None]:
    return lambda model: model.manage(where, part)


def reconciling(where: str) -> Callable[[Model], None]:
    def reconcile(model: Model) -> None:
        for key in [each for each in model.sync_resources if each[0] == where]:
            model.reconcile(key)

    return reconcile


def reconciling_one(number: int) -> Callable[[Model], None]:
    def reconcile(model: Model) -> None:
        if keys := sorted(model.sync_resources):
            model.reconcile(keys[number % len(keys)])

    return reconcile


TURNS: dict[str, Callable[[Model], None]] = {
    "own namespace": lambda model: model.assign(namespace()),
    "retired": lambda model: model.assign(namespace(annotations=RETIRED)),
    "deleted": Model.delete_namespace,
    "synchronize": Model.synchronize,
    "collect": Model.collect,
    **{f"manage {where} {part}": managing(where, part) for where in (KCP, OWN) for part in (0, 1)},
    **{f"reconcile {where}": reconciling(where) for where in (KCP, OWN)},
    **{f"reconcile {number}": reconciling_one(number) for number in range(4)},
}
ORDERS = st.sets(st.sampled_from(sorted(TURNS)), min_size=3).flatmap(
    lambda chosen: st.lists(st.sampled_from(sorted(chosen)), max_size=40)
)
"""Turns of few kinds at a time: where everybody takes turns, nobody is late for long."""


@settings(max_examples=250, deadline=None)
@given(begins_with_all=st.booleans(), turns=ORDERS, ends_own=st.booleans())
def test_a_move_deletes_nothing_and_comes_to_its_end(begins_with_all: bool, turns: list[str], ends_own: bool) -> None:
    model = copy.deepcopy(SETTLED) if begins_with_all else Model()
    for turn in turns:
        TURNS[turn](model)
        assert model.deleted == []
    for _ in range(2):  # a namespace that is being deleted is made again after its end
        TURNS["own namespace" if ends_own else "retired"](model)
        model.settle()
    assert model.deleted == []
    where = OWN if ends_own else KCP
    assert sorted(model.skr) == ["a", "b", "c", "d"]
    assert {owner for _, (owner, _) in model.skr.values()} == {where}
    assert {found for found, _ in model.configs} == {found for found, _ in model.sync_resources} == {where}


def test_objects_that_no_successor_has_yet_keep_the_former_module_configs() -> None:
    model = copy.deepcopy(SETTLED)
    for turn in ("own namespace", "synchronize", f"manage {OWN} 0", f"reconcile {OWN}", "synchronize", "collect"):
        TURNS[turn](model)
    TURNS[f"reconcile {KCP}"](model)
    assert model.deleted == []
    assert {where for where, _ in model.configs} == {KCP, OWN}


def test_deletion_of_a_namespace_deletes_no_objects() -> None:
    model = Model(assigned([namespace()]))
    model.settle()
    for turn in ("deleted", "collect", f"reconcile {OWN}"):
        TURNS[turn](model)
    model.synchronize()
    for turn in (f"manage {KCP} 0", f"reconcile {KCP}", f"reconcile {OWN}"):
        TURNS[turn](model)
    assert model.deleted == []
    assert {owner for _, (owner, _) in model.skr.values()} == {KCP, OWN}


def test_sync_resource_that_somebody_deletes_keeps_its_objects_until_a_successor_is_applied() -> None:
    model = copy.deepcopy(SETTLED)
    for turn in ("own namespace", "synchronize"):
        TURNS[turn](model)
    for key in model.sync_resources:
        model.mark(model.sync_resources, key)
    TURNS[f"reconcile {KCP}"](model)
    assert model.deleted == []
    for turn in (f"manage {OWN} 0", f"manage {OWN} 1", f"reconcile {OWN}", f"reconcile {KCP}"):
        TURNS[turn](model)
    assert model.deleted == []
    assert {owner for _, (owner, _) in model.skr.values()} == {where for where, _ in model.sync_resources} == {OWN}


def test_module_cr_that_is_gone_is_removed_during_a_move() -> None:
    model = copy.deepcopy(SETTLED)
    TURNS["own namespace"](model)
    model.synchronize()
    model.reading = reading_of("default")
    model.settle()
    assert sorted(model.deleted) == ["c", "d"]
    assert sorted(model.skr) == ["a", "b"]
