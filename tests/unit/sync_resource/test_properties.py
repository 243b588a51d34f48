"""What a reconcile of a SyncResource can never do, whatever is in the text, in the SKR, and claimed by others."""

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from kube_runtime import InventoryEntry
from lifecycle_manager.object_set.inventory import identities
from lifecycle_manager.object_set.ownership import Claim, claimed_earlier
from lifecycle_manager.sync_resource.snapshot import SyncResourceSnapshot, read_text, since
from lifecycle_manager_api import SyncResource, names
from tests import builders
from tests.policies import anything
from tests.sets import RecordedSet
from tests.unit.sync_resource.sets import reconciled

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
        found=identities(map(entry, found)),
        text=objects,
        claims=claims,
        rules=anything(),
    )


def done(seen: SyncResourceSnapshot, failing: Collection[str] = ()) -> RecordedSet:
    """Return what a reconcile does in which these objects can't be applied."""
    world = reconciled(seen, RecordedSet(failing=failing))
    for each in world.applied:
        assert each.found == seen.found, "what existed before is never deleted to be created anew"
    return world


def named(entries: Iterable[InventoryEntry]) -> set[str]:
    return {each.name for each in entries}


@given(text=SUBSETS, has=SUBSETS, found=SUBSETS, failing=SUBSETS)
def test_only_what_left_the_text_is_pruned_and_after_a_failure_its_likely_cause(
    text: set[str], has: set[str], found: set[str], failing: set[str]
) -> None:
    world = done(snapshot(text, has, {}, found), failing)
    leaving = has - text
    left_over = leaving - found
    assert named(world.pruned) == (left_over & {QUOTA} if text & failing else left_over)
    assert named(world.released) == (set() if text & failing else leaving & found)


@given(text=SUBSETS, has=SUBSETS)
def test_nothing_is_pruned_where_that_is_not_wanted(text: set[str], has: set[str]) -> None:
    seen = snapshot(text, has, {})
    spec = builders.sync_resource("m", text=text_of(text))
    kept = replace(seen, resource=_without_prune(spec))
    assert not done(kept).pruned


@given(text=SUBSETS, has=SUBSETS, claimed=st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["a", "z"])))
def test_object_that_another_has_claimed_earlier_is_never_touched(
    text: set[str], has: set[str], claimed: dict[str, str]
) -> None:
    seen = snapshot(text, has, claimed)
    world = done(seen)
    touched = named(world.pruned) | {thing.name for each in world.applied for thing in each.objects}
    theirs = {name for name, owner in claimed.items() if owner == "a" or name not in has}
    assert not touched & theirs


@given(has=SUBSETS, found=SUBSETS, claimed=st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["a", "z"])))
def test_removal_deletes_the_inventory_but_what_users_or_an_older_one_had(
    has: set[str], found: set[str], claimed: dict[str, str]
) -> None:
    seen = snapshot(set(), has, claimed, found, deletionTimestamp="2026-11-01T12:00:00Z")
    world = done(seen)
    own = has - {name for name, owner in claimed.items() if owner == "a"}
    assert (named(world.deleted), named(world.released)) == (own - found, own & found)
    assert names.SYNC_RESOURCE_FINALIZER in seen.resource.metadata.finalizers


@given(text=SUBSETS, has=SUBSETS)
def test_nothing_changes_for_a_text_with_an_object_of_the_lifecycle_managers_own(text: set[str], has: set[str]) -> None:
    ours = InventoryEntry("", "v1", "Secret", "kyma-system", "skr-webhook-tls")
    world = reconciled(snapshot(text, has, {}), RecordedSet(frozenset({ours})))
    (status,) = world.statuses
    assert world.requests == ["resolve"]
    assert {condition.reason for condition in status.conditions} == {"Forbidden"}


@given(text=SUBSETS, has=SUBSETS, is_deleted=st.booleans())
def test_sync_resource_outside_the_namespace_of_its_module_does_nothing_in_the_skr(
    text: set[str], has: set[str], is_deleted: bool
) -> None:
    """Whatever its status says: in that namespace others than the Lifecycle Manager may write it."""
    metadata = {"deletionTimestamp": "2026-11-01T12:00:00Z"} if is_deleted else {}
    seen = replace(snapshot(text, has, {}, **metadata), module_namespace="module-cloud-resources")
    world = done(seen)
    assert (world.requests, world.is_finalizer_removed, len(world.statuses)) == ([], is_deleted, not is_deleted)


def _without_prune(resource: SyncResource) -> SyncResource:
    return msgspec.structs.replace(resource, spec=msgspec.structs.replace(resource.spec, prune=False))
