"""A sync leads from any state of an SKR to the wanted catalog."""

import asyncio
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_runtime import KindUnknown, KubeError
from lifecycle_manager.catalog_sync import rules
from lifecycle_manager.catalog_sync.controller import bring
from lifecycle_manager.catalog_sync.snapshot import CatalogRecord, CatalogSnapshot
from lifecycle_manager.catalog_sync.status import CatalogRefused, failed, synced
from lifecycle_manager.catalog_sync.wanted import CRDS_DIGEST as CRDS
from lifecycle_manager.catalog_sync.wanted import KINDS, Item, Key, wanted_catalog
from lifecycle_manager.contract.conditions import (
    CATALOG,
    CATALOG_SYNC_FAILED,
    CATALOG_SYNCED,
    CLUSTER_CLAIMED,
    REACHABLE,
)
from lifecycle_manager.module_catalog.offer import Offer
from lifecycle_manager_api import Kyma, names
from tests import builders

OFFER = Offer.of(
    [builders.template("api", "1.0.0"), builders.template("nats", "2.0.0")], [builders.release("api", regular="1.0.0")]
)
WANTED = wanted_catalog(OFFER, {})
FORMER = [builders.template("api", "1.0.0"), builders.template("api", "0.9.0")]
EARLIER = wanted_catalog(Offer.of(FORMER, [builders.release("api", regular="0.9.0")]), {})
FROZEN = wanted_catalog(OFFER, {names.SYNC: "false"})


def synced_kyma(
    *,
    reason: str = "Reachable",
    catalog: str = "",
    message: str = synced(is_frozen=False).message,
    record: CatalogRecord | None = None,
    **metadata: Any,
) -> Kyma:
    reasons = {REACHABLE: (reason, "")} | ({CATALOG: (catalog, message)} if catalog else {})
    conditions = [builders.condition(kind, each, message, "True") for kind, (each, message) in reasons.items()]
    records = {"catalog": str(record)} if record is not None else {}
    return builders.kyma(status={"conditions": conditions}, records=records, **metadata)


def snapshot(of: Kyma, **changed: Any) -> CatalogSnapshot:
    given: dict[str, Any] = {
        "now": builders.NOW,
        "wanted": WANTED,
        "record": CatalogRecord.of(of),
        "interval_seconds": 600.0,
    }
    return CatalogSnapshot(kyma=of, **(given | changed))


@dataclass
class Cluster:
    """An SKR: the kinds that it knows, and the objects that LM has there. An object's version counts its writes."""

    kinds: set[str]
    objects: dict[Key, int]
    writes: list[Key] = field(default_factory=list)
    known: dict[str, str] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    keeps_crds: bool = True

    def fingerprint(self, kind: str) -> str:
        objects = (f"{name}:{version}" for (of, name), version in sorted(self.objects.items()) if of == kind)
        return f"objects {','.join(objects)}"

    async def apply_crds(self) -> frozenset[str]:
        self.requests.append("CRDs")
        new = frozenset(KINDS) - self.kinds
        self.kinds |= new if self.keeps_crds else set()
        return new if self.keeps_crds else frozenset()

    async def changed(self) -> tuple[str, ...]:
        self._require(self.known)
        return tuple(kind for kind in KINDS if self.fingerprint(kind) != self.known.get(kind))

    async def read(self, kinds: Collection[str]) -> dict[Key, Item]:
        self.requests += [f"read {kind}" for kind in kinds]
        self._require(kinds)
        return {key: (WANTED.items.get(key) or EARLIER.items[key]).item for key in self.objects if key[0] in kinds}

    async def write(
        self,
        seen: CatalogSnapshot,
        differences: rules.CatalogDifferences,
        kinds: Collection[str],
        _live: Mapping[Key, Item],
    ) -> CatalogSnapshot:
        self.requests.append("write")
        applied = [(each.item.KIND, each.item.metadata.name) for each in differences.apply]
        self._require(kind for kind, _ in applied)
        self.objects |= {key: self.objects.get(key, 0) + 1 for key in applied}
        self.objects = {key: each for key, each in self.objects.items() if key not in differences.delete}
        self.writes += [*applied, *differences.delete]
        touched = {kind for kind, _ in self.writes}
        self.known = {kind: each for kind, each in self.known.items() if kind not in touched}
        self.known |= {kind: self.fingerprint(kind) for kind in kinds}
        return replace(seen, record=replace(seen.record, catalog=seen.wanted.digest))

    def _require(self, kinds: Iterable[str]) -> None:
        for kind in kinds:
            if kind not in self.kinds:
                raise KindUnknown("v1", kind)


def sync(cluster: Cluster, seen: CatalogSnapshot) -> rules.CatalogDone:
    return rules.pause(seen) or asyncio.run(bring(cast("Any", cluster), seen))


RECORDS = st.builds(
    CatalogRecord,
    crds=st.sampled_from(["", CRDS]),
    catalog=st.sampled_from(["", EARLIER.digest, WANTED.digest]),
)


@given(
    kinds=st.sets(st.sampled_from(KINDS)),
    present=st.sets(st.sampled_from(sorted({**WANTED.items, **EARLIER.items}))),
    record=st.none() | RECORDS,
    condition=st.sampled_from(["", CATALOG_SYNCED]),
)
def test_check_ends_with_the_wanted_catalog_and_the_next_one_writes_nothing(
    kinds: set[str], present: set[Key], record: CatalogRecord | None, condition: str
) -> None:
    """Whatever an SKR has, and whatever its record says."""
    cluster = Cluster(set(kinds), {key: 1 for key in present if key[0] in kinds})
    done = sync(cluster, snapshot(synced_kyma(catalog=condition, record=record)))
    assert done.condition is not None
    assert done.condition.reason == CATALOG_SYNCED
    assert set(cluster.objects) == set(WANTED.items)
    cluster.writes.clear()
    known = synced_kyma(catalog=CATALOG_SYNCED, record=done.record)
    again = sync(cluster, snapshot(known))
    assert again.condition is not None
    assert cluster.writes == []


def test_cluster_with_another_catalog_is_read_before_it_is_written() -> None:
    for reason in (CATALOG_SYNCED, CATALOG_SYNC_FAILED):
        cluster = Cluster(set(KINDS), dict.fromkeys(EARLIER.items, 1))
        sync(cluster, snapshot(synced_kyma(catalog=reason, record=CatalogRecord(CRDS, EARLIER.digest))))
        assert cluster.requests == [*(f"read {kind}" for kind in KINDS), "write"]


def test_catalog_whose_synchronization_is_off_is_not_written() -> None:
    cluster = Cluster(set(), {})
    done = sync(cluster, snapshot(synced_kyma(), wanted=FROZEN))
    assert done.condition is not None
    assert cluster.writes == []


def test_kyma_that_is_skipped_claimed_or_was_not_read_needs_no_step() -> None:
    skipped = synced_kyma(labels={names.SKIP_RECONCILIATION: "true"})
    for each in (skipped, synced_kyma(reason=CLUSTER_CLAIMED), builders.kyma()):
        assert rules.pause(snapshot(each)) == rules.CatalogDone()


def test_catalog_that_is_up_to_date_waits_until_it_is_due() -> None:
    record = CatalogRecord(CRDS, WANTED.digest)
    current = snapshot(synced_kyma(catalog=CATALOG_SYNCED, record=record), is_due=False, seconds_until_due=7.0)
    assert rules.pause(current) == rules.CatalogDone(requeue_after=7.0)
    assert rules.pause(replace(current, is_due=True)) is None


def test_catalog_that_was_written_before_it_is_due_is_recorded() -> None:
    """Its condition says the same as before, but not its record: else each reconcile would read all objects again."""
    earlier = synced_kyma(catalog=CATALOG_SYNCED, record=CatalogRecord(CRDS, "earlier"))
    done = sync(Cluster(set(KINDS), {}), snapshot(earlier, is_due=False, seconds_until_due=60.0))
    assert done.record == CatalogRecord(CRDS, WANTED.digest)


def test_request_that_failed_ends_the_sync_with_its_error() -> None:
    error = KubeError("refused")
    assert rules.failure(snapshot(synced_kyma()), error) == rules.CatalogDone(condition=failed(error), error=error)


def test_cluster_that_never_knows_the_crds_is_not_asked_for_ever() -> None:
    cluster = Cluster(set(), {}, keeps_crds=False)
    with pytest.raises(CatalogRefused, match="does not have the CRDs"):
        sync(cluster, snapshot(synced_kyma()))
    assert cluster.requests.count("CRDs") == 1


def test_condition_in_the_words_of_an_earlier_version_is_not_written_again() -> None:
    record = CatalogRecord(crds=CRDS, catalog=WANTED.digest)
    known = synced_kyma(catalog=CATALOG_SYNCED, message="objects of the catalog in the cluster: 9", record=record)
    seen = snapshot(known, is_due=False, seconds_until_due=60.0)
    assert rules.pause(seen) == rules.CatalogDone(requeue_after=60.0)
