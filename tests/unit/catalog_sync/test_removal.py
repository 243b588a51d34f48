"""The removal of a catalog: what it deletes, in which order, and what it can never delete."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from kube_runtime import Revision
from lifecycle_manager.catalog_sync import plan
from lifecycle_manager.catalog_sync.plan import plan_removal
from lifecycle_manager.catalog_sync.snapshot import RemovalSnapshot
from lifecycle_manager.catalog_sync.status import REMOVING
from lifecycle_manager.catalog_sync.wanted import KINDS
from lifecycle_manager.kyma_conditions import CATALOG, MODULES, MODULES_REMOVED, REMOVED, WEBHOOK
from lifecycle_manager_api import Kyma
from tests import builders

AGE = timedelta(minutes=5)


def kyma(**reasons: str) -> Kyma:
    conditions = [
        {"type": kind, "status": "False", "reason": reason, "message": ""}
        for kind, reason in ({MODULES: MODULES_REMOVED, WEBHOOK: REMOVED, CATALOG: "Synced"} | reasons).items()
    ]
    deleted_at = (builders.NOW - AGE).isoformat()
    return builders.kyma(status={"conditions": conditions}, deletionTimestamp=deleted_at)


def snapshot(of: Kyma, purge_after: timedelta | None = None) -> RemovalSnapshot:
    return RemovalSnapshot(of, builders.NOW, purge_after, interval_seconds=5.0)


@dataclass
class Cluster:
    """The objects of an SKR: kind, name, whether LM created it, whether somebody's finalizer holds it."""

    objects: dict[tuple[str, str], tuple[bool, bool]]
    kinds: set[str]

    def revisions(self, kinds: Iterable[str], *, own: bool) -> dict[str, tuple[Revision, ...]]:
        return {kind: self._of_kind(kind, own=own) for kind in kinds if kind in self.kinds}

    def _of_kind(self, kind: str, *, own: bool) -> tuple[Revision, ...]:
        found = (name for (of, name), (is_own, _) in self.objects.items() if of == kind and (is_own or not own))
        return tuple(
            msgspec.convert({"metadata": {"name": name, "uid": f"{kind}-{name}", "resourceVersion": "1"}}, Revision)
            for name in found
        )

    def carry_out(self, seen: RemovalSnapshot, step: plan.RemovalStep) -> RemovalSnapshot:
        match step:
            case plan.ReadOwnObjects():
                return replace(seen, own=self.revisions(KINDS, own=True))
            case plan.DeleteObjects(keys):
                assert all(self.objects[key][0] for key in keys), "an object of somebody else is deleted"
                for key in keys:
                    if not self.objects[key][1]:
                        del self.objects[key]
                return replace(seen, are_deleted=True)
            case plan.ReadRemainingObjects(kinds):
                return replace(seen, remaining=self.revisions(kinds, own=False))
            case plan.DeleteCRDs(kinds):
                assert not any(of in kinds for of, _ in self.objects), "a CRD with objects is deleted"
                self.kinds -= set(kinds)
                return replace(seen, deleted_crds=seen.deleted_crds.union(kinds))
            case plan.RemoveFinalizers():
                return replace(seen, are_finalizers_removed=True)
        raise AssertionError(step)


def remove(cluster: Cluster, seen: RemovalSnapshot) -> plan.Done:
    while not isinstance(step := plan_removal(seen), plan.Done):
        seen = cluster.carry_out(seen, step)
    return step


OBJECTS = st.dictionaries(
    st.tuples(st.sampled_from(KINDS), st.sampled_from("abc")), st.tuples(st.booleans(), st.booleans())
)


@given(objects=OBJECTS, kinds=st.sets(st.sampled_from(KINDS)), purge=st.booleans())
def test_removal_never_deletes_objects_of_others_nor_a_crd_with_objects(
    objects: dict[Any, Any], kinds: set[str], purge: bool
) -> None:
    there = {key: flags for key, flags in objects.items() if key[0] in kinds}
    cluster = Cluster(dict(there), set(kinds))
    done = remove(cluster, snapshot(kyma(), AGE if purge else None))
    others = {key for key, (own, _) in there.items() if not own}
    held = {key for key, (own, is_held) in there.items() if own and is_held}
    assert set(cluster.objects) == others | held
    assert cluster.kinds == {kind for kind, _ in others | held}
    assert done.condition is not None
    assert done.condition.reason == (REMOVING if held else REMOVED)


def test_catalog_is_removed_after_modules_and_watcher() -> None:
    for reasons in ({MODULES: "Deleting"}, {WEBHOOK: "Installed"}):
        assert plan_removal(snapshot(kyma(**reasons))) == plan.Done()
    assert plan_removal(snapshot(kyma())) == plan.ReadOwnObjects()


def test_removed_catalog_and_one_that_never_was_need_no_request() -> None:
    assert plan_removal(snapshot(kyma(**{CATALOG: REMOVED}))) == plan.Done()
    assert plan_removal(snapshot(builders.kyma(deletionTimestamp="2026-11-01T11:00:00Z"))) == plan.Done()


def test_finalizers_of_others_are_removed_only_after_the_purge_time() -> None:
    held = {(KINDS[0], "a"): (True, True)}
    for purge_after, purged in ((None, False), (AGE + timedelta(seconds=1), False), (AGE, True)):
        seen, cluster = snapshot(kyma(), purge_after), Cluster(dict(held), set(KINDS))
        while not isinstance(step := plan_removal(seen), plan.Done):
            seen = cluster.carry_out(seen, step)
        assert seen.are_finalizers_removed is purged
