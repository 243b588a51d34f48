"""What the plan of a SyncResource can never do, whatever is in the text, in the SKR, and claimed by others."""

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from kube_runtime import ApplyResult, InventoryEntry, ObjectOutcome, Step
from lifecycle_manager.object_set.inventory import identities, without
from lifecycle_manager.object_set.ownership import Claim, claimed_earlier
from lifecycle_manager.object_set.steps import (
    ApplyObjects,
    DeleteObjects,
    PruneObjects,
    RecordIntent,
    ReleaseFound,
    RemoveFinalizer,
)
from lifecycle_manager.sync_resource import plan as planned
from lifecycle_manager.sync_resource.ending import SyncResourceDone
from lifecycle_manager.sync_resource.snapshot import SyncResourceSnapshot, read_text, since
from lifecycle_manager_api import names
from tests import builders
from tests.policies import anything

NAMES = "abcdef"
QUOTA = "f"
"""The one object that can make the server refuse the others."""
SUBSETS = st.sets(st.sampled_from(NAMES))


def kind_of(name: str) -> str:
    return "ResourceQuota" if name == QUOTA else "ConfigMap"


def entry(name: str) -> InventoryEntry:
    return InventoryEntry("", "v1", kind_of(name), "shop", name)


def text_of(chosen: set[str]) -> str:
    template = "apiVersion: v1\nkind: {1}\nmetadata: {{name: {0}, namespace: shop}}\n"
    return "---\n".join(template.format(name, kind_of(name)) for name in sorted(chosen))


def snapshot(
    text: set[str], has: set[str], claimed: dict[str, str], found: Collection[str] = (), **metadata: Any
) -> SyncResourceSnapshot:
    """Return the snapshot of the SyncResource `m` whose others claim objects; the names of these order them."""
    resource = builders.sync_resource("m", text=text_of(text), **metadata)
    claims = tuple(Claim(entry(name), since(resource)[0], owner) for name, owner in claimed.items())
    inventory = tuple(sorted(map(entry, has)))
    own = tuple(each for each in inventory if each not in claimed_earlier(inventory, since(resource), claims))
    objects = read_text(resource.spec.resource)
    return SyncResourceSnapshot(
        resource=resource,
        kyma=builders.kyma(),
        now=builders.NOW,
        inventory=own,
        before=own,
        found=identities(map(entry, found)),
        text=objects,
        claims=claims,
        rules=anything(),
        wanted=frozenset(),
    )


def applied(seen: SyncResourceSnapshot, step: ApplyObjects, failing: set[str]) -> ApplyResult:
    wanted = [
        ObjectOutcome(entry(each.name), index, "failed", error="no")
        if each.name in failing
        else ObjectOutcome(
            entry(each.name),
            index,
            "changed",
            live={"metadata": {"name": each.name, "uid": "1", "resourceVersion": "1"}},
        )
        for index, each in enumerate(step.objects)
    ]
    named = {each.entry for each in wanted}
    kept = [ObjectOutcome(each, None, "kept") for each in seen.inventory if each not in named]
    return ApplyResult((*wanted, *kept), tuple(sorted({*seen.inventory, *named})))


def steps_of(seen: SyncResourceSnapshot, failing: set[str]) -> list[Step]:
    """Return all steps of a reconcile in which these objects can't be applied."""
    taken: list[Step] = []
    while True:
        step = planned.plan(seen)
        taken.append(step)
        match step:
            case RecordIntent():
                seen = replace(seen, recorded=True)
            case ApplyObjects():
                assert step.found == seen.found, "what existed before is never deleted to be created anew"
                seen = replace(seen, applied=applied(seen, step, failing))
            case ReleaseFound(entries):
                seen = released(seen, entries)
            case PruneObjects():
                seen = replace(seen, pruned=True)
            case DeleteObjects():
                seen = replace(seen, removed=ApplyResult((), ()))
            case _:
                return taken


def released(seen: SyncResourceSnapshot, entries: tuple[InventoryEntry, ...]) -> SyncResourceSnapshot:
    """Return what is known after objects were released to the users."""
    found = seen.applied
    if found is not None:
        outcomes = [replace(each, action="released") if each.entry in entries else each for each in found.outcomes]
        found = ApplyResult(tuple(outcomes), without(found.inventory, entries))
    return replace(seen, inventory=without(seen.inventory, entries), applied=found)


def left_in(steps: Iterable[Step]) -> set[str]:
    return {each.name for step in steps if isinstance(step, ReleaseFound) for each in step.entries}


@given(text=SUBSETS, has=SUBSETS, found=SUBSETS, failing=SUBSETS)
def test_only_what_left_the_text_is_pruned_and_after_a_failure_its_likely_cause(
    text: set[str], has: set[str], found: set[str], failing: set[str]
) -> None:
    steps = steps_of(snapshot(text, has, {}, found), failing)
    pruned = {each.name for step in steps if isinstance(step, PruneObjects) for each in step.entries}
    leaving = has - text
    left_over = leaving - found
    assert pruned == (left_over & {QUOTA} if text & failing else left_over)
    assert left_in(steps) == (set() if text & failing else leaving & found)


@given(text=SUBSETS, has=SUBSETS)
def test_nothing_is_pruned_where_that_is_not_wanted(text: set[str], has: set[str]) -> None:
    seen = snapshot(text, has, {})
    spec = builders.sync_resource("m", text=text_of(text))
    kept = replace(seen, resource=_without_prune(spec))
    assert not [step for step in steps_of(kept, set()) if isinstance(step, PruneObjects)]


@given(text=SUBSETS, has=SUBSETS, claimed=st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["a", "z"])))
def test_object_that_another_has_claimed_earlier_is_never_touched(
    text: set[str], has: set[str], claimed: dict[str, str]
) -> None:
    seen = snapshot(text, has, claimed)
    touched: set[str] = set()
    for step in steps_of(seen, set()):
        match step:
            case ApplyObjects():
                touched |= {each.name for each in step.objects}
            case PruneObjects():
                touched |= {each.name for each in step.entries}
    theirs = {name for name, owner in claimed.items() if owner == "a" or name not in has}
    assert not touched & theirs


@given(has=SUBSETS, found=SUBSETS, claimed=st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["a", "z"])))
def test_removal_deletes_the_inventory_but_what_users_or_an_older_one_had(
    has: set[str], found: set[str], claimed: dict[str, str]
) -> None:
    seen = snapshot(set(), has, claimed, found, deletionTimestamp="2026-11-01T12:00:00Z")
    steps = steps_of(seen, set())
    deleted = {each.name for step in steps if isinstance(step, DeleteObjects) for each in step.inventory}
    own = has - {name for name, owner in claimed.items() if owner == "a"}
    assert (deleted, left_in(steps)) == (own - found, own & found)
    assert names.SYNC_RESOURCE_FINALIZER in seen.resource.metadata.finalizers


@given(text=SUBSETS, has=SUBSETS)
def test_nothing_changes_for_a_text_with_an_object_of_the_lifecycle_managers_own(text: set[str], has: set[str]) -> None:
    ours = InventoryEntry("", "v1", "Secret", "kyma-system", "skr-webhook-tls")
    (done,) = steps_of(replace(snapshot(text, has, {}), wanted=frozenset({ours})), set())
    assert isinstance(done, SyncResourceDone)
    assert {condition.reason for condition in done.status.conditions} == {"Forbidden"}


@given(text=SUBSETS, has=SUBSETS, is_deleted=st.booleans())
def test_sync_resource_outside_the_namespace_of_its_module_does_nothing_in_the_skr(
    text: set[str], has: set[str], is_deleted: bool
) -> None:
    """Whatever its status says: in that namespace others than the Lifecycle Manager may write it."""
    metadata = {"deletionTimestamp": "2026-11-01T12:00:00Z"} if is_deleted else {}
    seen = replace(snapshot(text, has, {}, **metadata), module_namespace="module-cloud-resources")
    (step,) = steps_of(seen, set())
    assert isinstance(step, RemoveFinalizer if is_deleted else SyncResourceDone)


def _without_prune(resource: Any) -> Any:
    return msgspec.structs.replace(resource, spec=msgspec.structs.replace(resource.spec, prune=False))
