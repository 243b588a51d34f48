"""What a reconcile of a Manifest can never do, whatever the SKR, its users and its other modules have."""

from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_runtime import ApplyResult, End, InventoryEntry, JsonObject, ObjectKey, Resource, Step, parse_objects
from lifecycle_manager.module_installation import plan as planned
from lifecycle_manager.module_installation.reading import KindObject, crd_of
from lifecycle_manager.module_installation.rendering import RenderedModule
from lifecycle_manager.module_installation.snapshot import (
    ManifestSnapshot,
    Removal,
    has_finalizers,
    is_being_deleted,
)
from lifecycle_manager.module_installation.steps import (
    CheckManagersMissing,
    DeleteDefaultCRs,
    DeleteObjects,
    FindModuleCRs,
    HandOverObjects,
    ListUsersObjects,
    ManifestDone,
    ReleaseFound,
    RemoveFinalizer,
    StripFinalizers,
    Upgrade,
)
from lifecycle_manager.object_set.inventory import entries_of, identities, inventory_of, is_crd, references_to, without
from lifecycle_manager.object_set.ownership import Holder, SetOwner
from lifecycle_manager.options.modules import Options
from lifecycle_manager.skr.brake import Brake, Hold
from lifecycle_manager_api import Manifest, names
from tests import builders
from tests.modules import as_text
from tests.unit.module_installation.sets import RecordedModule, installed, upgraded

MAX_STEPS, MAX_ROUNDS = 20, 40
KINDS = tuple(
    Resource.dynamic("example.com", "v1", kind, f"{kind.lower()}s", namespaced=True) for kind in ("Rose", "Tulip")
)
CRDS = {crd_of(kind): kind for kind in KINDS}
OBJECTS = tuple(InventoryEntry("", "v1", "ConfigMap", "shop", name) for name in "abc")
WEBHOOK = InventoryEntry("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration", "", "gate")
ENTRIES = (*OBJECTS, WEBHOOK, *CRDS)
SUBSETS = st.sets(st.sampled_from(ENTRIES))
OTHER_SOURCE = msgspec.Raw(msgspec.json.encode({"url": "https://example.com/x.yaml", "digest": f"sha256:{'0' * 64}"}))
DEFAULT_CR = KindObject(KINDS[0], "shop", "default")
MODULE_CR = {"apiVersion": "example.com/v1", "kind": "Rose", "metadata": {"name": "default", "namespace": "shop"}}


def manifest(inventory: set[InventoryEntry], *, deleted: bool = False) -> Manifest:
    metadata: dict[str, Any] = {"finalizers": [names.MANIFEST_FINALIZER]}
    metadata |= {"deletionTimestamp": "2026-11-01T12:00:00Z"} if deleted else {}
    thing = builders.manifest("garden", "1.0.0", **metadata)
    install = msgspec.structs.replace(thing.spec.install, source=OTHER_SOURCE)
    spec = msgspec.structs.replace(thing.spec, install=install, resource=msgspec.Raw(msgspec.json.encode(MODULE_CR)))
    status = msgspec.structs.replace(thing.status, synced=references_to(sorted(inventory)))
    return msgspec.structs.replace(thing, spec=spec, status=status)


def holder(has: set[InventoryEntry], *, manages: bool) -> Holder:
    return Holder(SetOwner(ObjectKey("kcp-system", "demo-meadow"), "meadow"), identities(has), manages=manages)


@dataclass
class Removing:
    """An SKR without a server: carries the steps of a removal out, and checks each before."""

    data: st.DataObject
    inventory: set[InventoryEntry]
    others: tuple[Holder, ...]
    default_cr: JsonObject | None
    manager_exists: bool
    newest: frozenset[InventoryEntry] = frozenset()
    found: frozenset[InventoryEntry] = frozenset()
    settled: str = ""
    initial: set[InventoryEntry] = field(default_factory=set)
    shared: frozenset[Any] = frozenset()
    users: dict[str, int] = field(default_factory=dict)
    listed_after_objects: bool = False
    deleted: set[InventoryEntry] = field(default_factory=set)
    handed_over: set[InventoryEntry] = field(default_factory=set)
    left: set[InventoryEntry] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.initial = set(self.inventory)
        self.shared = frozenset(identity for other in self.others for identity in other.has)

    def snapshot(self) -> ManifestSnapshot:
        inventory = tuple(sorted(self.inventory))
        return ManifestSnapshot(
            resource=manifest(self.inventory, deleted=True),
            now=builders.NOW,
            seconds=0.0,
            inventory=inventory,
            before=inventory,
            found=identities(self.found & self.inventory),
        )

    def round(self) -> End:
        seen = self.snapshot()
        for _ in range(MAX_STEPS):
            step = planned.plan(seen)
            if isinstance(step, End):
                return step
            seen = self.carry_out(seen, step)
        raise AssertionError("the plan does not come to an end")

    def carry_out(self, seen: ManifestSnapshot, step: Step) -> ManifestSnapshot:
        found = seen.removal or Removal(KINDS)
        match step:
            case FindModuleCRs():
                crs = ((DEFAULT_CR, self.default_cr),) if self.default_cr is not None else ()
                kinds = (KINDS[0], *(kind for crd, kind in CRDS.items() if crd in self.inventory))
                seen = replace(seen, removal=Removal(tuple(dict.fromkeys(kinds)), crs), others=self.others)
            case DeleteDefaultCRs(crs):
                assert list(crs) == [DEFAULT_CR]
                left = self.deleting()
                seen = replace(seen, removal=replace(found, default_crs=((DEFAULT_CR, left),) if left else ()))
            case CheckManagersMissing():
                seen = replace(seen, removal=replace(found, manager_missing=not self.manager_exists))
            case StripFinalizers(crs):
                assert not self.manager_exists
                assert all(is_being_deleted(live) and has_finalizers(live) for _, live in crs)
                self.default_cr = None
                seen = replace(seen, removal=replace(found, default_crs=()))
            case ListUsersObjects(kinds):
                seen = replace(seen, removal=replace(found, users_objects=self.list_users(kinds)))
            case HandOverObjects(objects):
                seen = self.hand_over(seen, objects)
            case ReleaseFound(entries):
                self.leave({*entries})
                seen = replace(seen, inventory=without(seen.inventory, entries))
            case DeleteObjects(entries):
                seen = self.delete(seen, found, entries)
            case Upgrade():
                assert self.default_cr is not None or any(self.users.values()), "only a blocked one is upgraded"
                seen = self.upgrade(seen, step)
            case _:
                raise AssertionError(step)
        return seen

    def upgrade(self, seen: ManifestSnapshot, step: Upgrade) -> ManifestSnapshot:
        world = RecordedModule(
            wanted=self.newest, rendering=rendering({*self.newest}), others=self.others, in_use=frozenset(CRDS)
        )
        after = upgraded(seen, step, world, self.settled)
        assert bool(world.applied) == (self.settled != "new")
        assert not {*world.handed_over} & self.newest, "a new version lacks it"
        assert all(each.identity in self.shared for each in world.handed_over)
        self.handed_over |= {*world.handed_over}
        self.inventory -= {*world.handed_over}
        for applied in world.applied:
            self.apply(after, world)
            assert applied.found == seen.found, "what existed before is never deleted to be created anew"
        self.leave({*world.released})
        self.prune({*world.pruned})
        return after

    def apply(self, seen: ManifestSnapshot, world: RecordedModule) -> None:
        (applied,) = world.applied
        assert identities(applied.inventory) <= identities(inventory_of(seen.resource)), "the intent is recorded before"
        assert not world.recorded or world.requests.index("record") < world.requests.index("apply")
        self.inventory |= self.newest
        self.initial |= self.newest
        self.deleted -= self.newest
        self.handed_over -= self.newest
        self.left -= self.newest
        self.settled = "new"

    def prune(self, entries: set[InventoryEntry]) -> None:
        assert entries <= self.inventory - self.newest
        assert not [each for each in entries if is_crd(each) or each.identity in self.shared]
        assert not entries & self.found
        self.deleted |= entries
        self.inventory -= entries

    def deleting(self) -> JsonObject | None:
        """Return the default Module CR after its deletion: its finalizers hold it, if it has any."""
        assert self.default_cr is not None
        metadata = {**self.default_cr["metadata"], "deletionTimestamp": "now"}
        self.default_cr = {"metadata": metadata} if metadata.get("finalizers") else None
        return self.default_cr

    def list_users(self, kinds: tuple[Resource[JsonObject], ...]) -> tuple[str, ...]:
        self.users = {kind.kind: self.data.draw(st.integers(0, 1), label=f"{kind.kind} of users") for kind in kinds}
        self.listed_after_objects = not [each for each in self.inventory if not is_crd(each)]
        return tuple(kind for kind, count in self.users.items() if count)

    def hand_over(self, seen: ManifestSnapshot, objects: Any) -> ManifestSnapshot:
        self.nothing_is_in_use()
        for entry, next_owner in objects.items():
            assert entry in self.inventory
            assert entry.identity in next_owner.has
        self.handed_over |= {*objects}
        self.inventory -= {*objects}
        return replace(seen, inventory=without(seen.inventory, objects))

    def leave(self, entries: set[InventoryEntry]) -> None:
        assert entries <= self.found & self.inventory
        assert not [each for each in entries if each.identity in self.shared], "another module has it"
        self.left |= entries
        self.inventory -= entries

    def delete(self, seen: ManifestSnapshot, found: Removal, entries: tuple[InventoryEntry, ...]) -> ManifestSnapshot:
        self.nothing_is_in_use()
        assert self.default_cr is None
        assert {*entries} <= self.initial - self.handed_over - self.found
        assert not [each for each in entries if any(each.identity in other.has for other in self.others)]
        for crd in filter(is_crd, entries):
            assert not [each for each in self.inventory if not is_crd(each)], "CRDs go last"
            assert self.listed_after_objects, "users may have created objects meanwhile"
            assert self.users.get(CRDS[crd].kind) == 0
        self.settled = ""
        left = self.data.draw(st.sets(st.sampled_from(entries)), label="still there") if entries else set()
        self.deleted |= {*entries} - left
        self.inventory -= {*entries} - left
        removal = planned.after_deleting(found, tuple(sorted(self.inventory)))
        removed = ApplyResult((), tuple(sorted(left)))
        return replace(seen, inventory=tuple(sorted(self.inventory)), removal=removal, removed=removed)

    def nothing_is_in_use(self) -> None:
        assert not any(self.users.values()), "users have objects of the module's kinds"


CRS = st.sampled_from([None, {"metadata": {"uid": "1"}}, {"metadata": {"uid": "1", "finalizers": ["operator"]}}])


@given(
    inventory=SUBSETS,
    newest=SUBSETS,
    found=SUBSETS,
    shared=SUBSETS,
    manages=st.booleans(),
    cr=CRS,
    manager=st.booleans(),
    data=st.data(),
)
def test_removal_takes_nothing_foreign_shared_or_in_use_and_ends(
    inventory: set[InventoryEntry],
    newest: set[InventoryEntry],
    found: set[InventoryEntry],
    shared: set[InventoryEntry],
    cr: JsonObject | None,
    data: st.DataObject,
    *,
    manages: bool,
    manager: bool,
) -> None:
    others = (holder(shared, manages=manages),)
    cluster = Removing(data, set(inventory), others, cr, manager, newest=frozenset(newest), found=frozenset(found))
    for _ in range(MAX_ROUNDS):
        end = cluster.round()
        if isinstance(end, RemoveFinalizer):
            assert cluster.inventory == set()
            assert cluster.deleted == cluster.initial - shared - found
            assert cluster.left == (cluster.initial & found) - shared
            assert cluster.handed_over == cluster.initial & shared
            return
        assert isinstance(end, ManifestDone)
        assert {each.name for each in end.status.synced} == {each.name for each in cluster.inventory}
        if cluster.default_cr is not None:
            assert cluster.settled == "new", "the newest version runs while something blocks the removal"
            cluster.default_cr = None  # its operator has cleaned up
    # users keep their objects for ever


@pytest.mark.parametrize(
    ("brake", "end"), [(Brake(may_forget=True), RemoveFinalizer(of_others=True)), (Brake(Hold("a word")), None)]
)
def test_cluster_that_is_gone_needs_no_steps_and_a_deletion_that_is_held_takes_none(
    brake: Brake, end: RemoveFinalizer | None
) -> None:
    removing = Removing(Any, {*ENTRIES}, (), None, True).snapshot()  # type: ignore[arg-type]
    deleted = {"deletion_timestamp": builders.NOW, "finalizers": (names.MANIFEST_FINALIZER,)}
    metadata = msgspec.structs.replace(removing.resource.metadata, **deleted, labels={names.KYMA_NAME: "demo"})
    seen = replace(removing, resource=msgspec.structs.replace(removing.resource, metadata=metadata), brake=brake)
    step = planned.plan(seen)
    assert step == end if end is not None else isinstance(step, ManifestDone)


def rendering(objects: set[InventoryEntry]) -> RenderedModule:
    documents = [
        {"apiVersion": each.api_version, "kind": each.kind, "metadata": {"name": each.name, "namespace": "shop"}}
        for each in sorted(objects)
    ]
    return RenderedModule("new", parse_objects(as_text(documents)) if documents else ())


def snapshot(has: set[InventoryEntry], found: set[InventoryEntry]) -> ManifestSnapshot:
    inventory = tuple(sorted(has))
    return ManifestSnapshot(
        resource=manifest(has),
        now=builders.NOW,
        seconds=0.0,
        inventory=inventory,
        before=inventory,
        options=Options(namespace="shop"),
        found=identities(found),
    )


def check_installation(
    world: RecordedModule, wanted: set[InventoryEntry], has: set[InventoryEntry], found: set[InventoryEntry]
) -> None:
    """Check what was done in the SKR, each before what follows."""
    failing = {each for each in wanted if each.name in world.failing}
    (applied,) = world.applied
    assert identities(applied.inventory) <= identities(world.recorded[-1] if world.recorded else has)
    assert not world.recorded or world.requests.index("record") < world.requests.index("apply")
    handed_over, left, pruned = {*world.handed_over}, {*world.released}, {*world.pruned}
    assert handed_over <= has - wanted
    assert left <= (found & has) - wanted - handed_over
    assert not (left and failing), "nothing is released in a round with failures"
    may_be_why = {WEBHOOK} if failing else pruned
    assert pruned <= may_be_why, "in a round with failures only what can refuse an apply is pruned"
    assert pruned <= has - wanted - handed_over - found


@given(
    wanted=SUBSETS,
    has=SUBSETS,
    found=SUBSETS,
    shared=SUBSETS,
    failing=st.just(set()) | SUBSETS,
)
def test_installation_prunes_what_left_the_module_and_nothing_shared(
    wanted: set[InventoryEntry],
    has: set[InventoryEntry],
    found: set[InventoryEntry],
    shared: set[InventoryEntry],
    failing: set[InventoryEntry],
) -> None:
    world = RecordedModule(
        wanted=frozenset(wanted),
        failing={each.name for each in failing},
        rendering=rendering(wanted),
        others=(holder(shared, manages=True),),
    )
    installed(snapshot(has, found), world)
    check_installation(world, wanted, has, found)
    assert {*world.handed_over} == (has - wanted) & shared
    has_failed = bool(wanted & failing)
    leaving = has - wanted - shared
    left_over = leaving - found
    assert {*world.pruned} == (left_over & {WEBHOOK} if has_failed else left_over)
    assert {*world.released} == (set() if has_failed else leaving & found)
    left = (has | wanted) - {*world.pruned, *world.handed_over, *world.released}
    (status,) = world.statuses
    assert {*entries_of(status.synced)} == left


OURS = (
    InventoryEntry("", "v1", "Secret", "kyma-system", "skr-webhook-tls"),
    InventoryEntry("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration", "", "skr-webhook"),
    InventoryEntry("operator.kyma-project.io", "v1beta2", "Kyma", "kyma-system", "default"),
)


@given(wanted=SUBSETS, has=SUBSETS, ours=st.sets(st.sampled_from(OURS), min_size=1))
def test_module_with_an_object_of_the_lifecycle_managers_own_changes_nothing(
    wanted: set[InventoryEntry], has: set[InventoryEntry], ours: set[InventoryEntry]
) -> None:
    world = RecordedModule(wanted=frozenset(wanted | ours), rendering=rendering(wanted))
    installed(snapshot(has, set()), world)
    (status,) = world.statuses
    assert world.requests == ["resolve"]
    assert {condition.reason for condition in status.conditions} == {"ObjectsForbidden"}
    assert {each.name for each in status.synced} == {each.name for each in has}
