"""The removal of a catalog: what it deletes, in which order, and what it can never delete."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from kube_runtime import KubeError, Revision
from lifecycle_manager.catalog_sync import rules
from lifecycle_manager.catalog_sync.controller import remove
from lifecycle_manager.catalog_sync.snapshot import CatalogRecord, CatalogSnapshot
from lifecycle_manager.catalog_sync.status import REMOVING, failed
from lifecycle_manager.catalog_sync.wanted import KINDS, wanted_catalog
from lifecycle_manager.contract.conditions import CATALOG, MODULES, MODULES_REMOVED, REMOVED, WEBHOOK
from lifecycle_manager.module_catalog.offer import Offer
from lifecycle_manager.skr.access import AccessSecretMissing
from lifecycle_manager_api import Kyma
from tests import builders

AGE = timedelta(minutes=5)
NOTHING = wanted_catalog(Offer.of([], []), {})


def deleted_kyma(**reasons: str) -> Kyma:
    conditions = [
        builders.condition(kind, reason)
        for kind, reason in ({MODULES: MODULES_REMOVED, WEBHOOK: REMOVED, CATALOG: "Synced"} | reasons).items()
    ]
    deleted_at = (builders.NOW - AGE).isoformat()
    return builders.kyma(status={"conditions": conditions}, deletionTimestamp=deleted_at)


def snapshot(of: Kyma, purge_after: timedelta | None = None) -> CatalogSnapshot:
    return CatalogSnapshot(
        kyma=of,
        now=builders.NOW,
        wanted=NOTHING,
        record=CatalogRecord(),
        interval_seconds=5.0,
        purge_after=purge_after,
    )


@dataclass
class Cluster:
    """The objects of an SKR: kind, name, whether LM created it, whether somebody's finalizer holds it."""

    objects: dict[tuple[str, str], tuple[bool, bool]]
    kinds: set[str]
    are_finalizers_removed: bool = False

    async def revisions(self, kinds: Iterable[str], *, own: bool) -> rules.Revisions:
        return {kind: self._of_kind(kind, own=own) for kind in kinds if kind in self.kinds}

    def _of_kind(self, kind: str, *, own: bool) -> tuple[Revision, ...]:
        found = (name for (of, name), (is_own, _) in self.objects.items() if of == kind and (is_own or not own))
        return tuple(
            msgspec.convert({"metadata": {"name": name, "uid": f"{kind}-{name}", "resourceVersion": "1"}}, Revision)
            for name in found
        )

    async def delete(self, own: rules.Revisions) -> None:
        keys = [(kind, each.metadata.name) for kind, items in own.items() for each in items]
        assert all(self.objects[key][0] for key in keys), "an object of somebody else is deleted"
        for key in keys:
            if not self.objects[key][1]:
                del self.objects[key]

    async def delete_crds(self, kinds: Iterable[str]) -> None:
        assert not any(of in {*kinds} for of, _ in self.objects), "a CRD with objects is deleted"
        self.kinds -= {*kinds}

    async def remove_finalizers(self, _kyma: Kyma) -> None:
        self.are_finalizers_removed = True


def removed(cluster: Cluster, seen: CatalogSnapshot) -> rules.CatalogDone:
    return asyncio.run(remove(cast("Any", cluster), seen))


OBJECTS = st.dictionaries(
    st.tuples(st.sampled_from(KINDS), st.sampled_from("abc")), st.tuples(st.booleans(), st.booleans())
)


@given(objects=OBJECTS, kinds=st.sets(st.sampled_from(KINDS)), purge=st.booleans())
def test_removal_never_deletes_objects_of_others_nor_a_crd_with_objects(
    objects: dict[Any, Any], kinds: set[str], purge: bool
) -> None:
    there = {key: flags for key, flags in objects.items() if key[0] in kinds}
    cluster = Cluster(dict(there), set(kinds))
    done = removed(cluster, snapshot(deleted_kyma(), AGE if purge else None))
    others = {key for key, (own, _) in there.items() if not own}
    held = {key for key, (own, is_held) in there.items() if own and is_held}
    assert set(cluster.objects) == others | held
    assert cluster.kinds == {kind for kind, _ in others | held}
    assert done.condition is not None
    assert done.condition.reason == (REMOVING if held else REMOVED)


def test_catalog_is_removed_after_modules_and_watcher() -> None:
    for reasons in ({MODULES: "Deleting"}, {WEBHOOK: "Installed"}):
        assert rules.pause(snapshot(deleted_kyma(**reasons))) == rules.CatalogDone()
    assert rules.pause(snapshot(deleted_kyma())) is None


def test_removed_catalog_and_one_that_never_was_need_no_request() -> None:
    assert rules.pause(snapshot(deleted_kyma(**{CATALOG: REMOVED}))) == rules.CatalogDone()
    assert rules.pause(snapshot(builders.kyma(deletionTimestamp="2026-11-01T11:00:00Z"))) == rules.CatalogDone()


def test_finalizers_of_others_are_removed_only_after_the_purge_time() -> None:
    held = {(KINDS[0], "a"): (True, True)}
    for purge_after, purged in ((None, False), (AGE + timedelta(seconds=1), False), (AGE, True)):
        cluster = Cluster(dict(held), set(KINDS))
        removed(cluster, snapshot(deleted_kyma(), purge_after))
        assert cluster.are_finalizers_removed is purged


def test_failed_removal_is_reported_and_one_without_access_secret_left_to_the_kyma() -> None:
    refused, missing = KubeError("refused"), AccessSecretMissing("demo")
    for error, end in (
        (refused, rules.CatalogDone(condition=failed(refused), error=refused)),
        (missing, rules.CatalogDone()),
    ):
        assert rules.failure(snapshot(deleted_kyma()), error) == end
