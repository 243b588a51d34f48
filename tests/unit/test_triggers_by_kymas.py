"""A change of a Kyma that triggers no reconcile of a part would have led to the same: no plan reads what it changes."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import product
from typing import Any

import pytest

from kube_runtime import Change, Informer
from lifecycle_manager.catalog_sync import rules as catalog_rules
from lifecycle_manager.catalog_sync.snapshot import CatalogRecord, CatalogSnapshot
from lifecycle_manager.catalog_sync.wanted import Catalogs
from lifecycle_manager.contract.conditions import (
    CATALOG,
    CLUSTER_CLAIMED,
    EVENT_PATH_BROKEN,
    MANDATORY_MODULES,
    MODULES,
    MODULES_REMOVED,
    REACHABLE,
    REMOVED,
    WATCHER_READY,
    WEBHOOK,
    has_webhook,
)
from lifecycle_manager.contract.resources import KYMAS
from lifecycle_manager.mandatory_modules.rules import changes_of
from lifecycle_manager.mandatory_modules.snapshot import InstallationSnapshot
from lifecycle_manager.mandatory_modules.status import status_of
from lifecycle_manager.module_catalog.offer import Offer
from lifecycle_manager.options.watcher import WatcherTimes
from lifecycle_manager.skr_webhook import rules as watcher_rules
from lifecycle_manager.skr_webhook.snapshot import Desired, ModuleCrRules, WatcherSnapshot
from lifecycle_manager.skr_webhook.timers import Timers
from lifecycle_manager_api import Kyma, names
from tests import builders
from tests.unit.fleet_of_triggers import open_fleet, recorded_triggers

OFFER = Offer.of(
    [builders.template("warden", installs=True, mandatory=True), builders.template("api", "1.0.0")],
    [builders.release("api", regular="1.0.0")],
)
PARTS: dict[str, tuple[Any, ...]] = {
    "deletionTimestamp": (None, "2026-11-01T12:00:00Z"),
    "finalizers": ([], [names.KYMA_FINALIZER]),
    "channel": ("regular", "fast"),
    "state": ("", "Ready"),
    REACHABLE: ("", "Reachable", CLUSTER_CLAIMED),
    MODULES: ("", "Ready", MODULES_REMOVED),
    WEBHOOK: ("", WATCHER_READY, EVENT_PATH_BROKEN, REMOVED),
    CATALOG: ("", "Synced", REMOVED),
    MANDATORY_MODULES: ("", "Decided"),
}
CONDITIONS = (REACHABLE, MODULES, WEBHOOK, CATALOG, MANDATORY_MODULES)


def kyma_of(parts: dict[str, Any]) -> Kyma:
    conditions = [builders.condition(each, parts[each]) for each in CONDITIONS if parts[each]]
    deleted = {"deletionTimestamp": parts["deletionTimestamp"]} if parts["deletionTimestamp"] else {}
    return builders.kyma(
        channel=parts["channel"],
        status={"state": parts["state"], "conditions": conditions},
        finalizers=parts["finalizers"],
        **deleted,
    )


def mandatory(kyma: Kyma) -> object:
    changes = changes_of(InstallationSnapshot(kyma=kyma, offer=OFFER, manifests=()))
    return changes, status_of(kyma, held=())


def catalog(kyma: Kyma) -> object:
    wanted = Catalogs().for_labels(OFFER, kyma.metadata.labels)
    now, record = datetime(2026, 11, 2, tzinfo=UTC), CatalogRecord.of(kyma)
    seen = CatalogSnapshot(kyma=kyma, now=now, wanted=wanted, record=record, interval_seconds=600.0)
    return catalog_rules.pause(seen) or kyma.metadata.being_deleted


def watcher(kyma: Kyma) -> object:
    timers = Timers(since=0.0, repair_at=100.0, share=0.5)
    seen = WatcherSnapshot(kyma=kyma, now=1.0, times=WatcherTimes(), timers=timers)
    if not watcher_rules.is_managed(kyma):
        return None
    desired = Desired((), {}, ModuleCrRules(), with_webhook=has_webhook(kyma))
    compared = watcher_rules.comparison(seen, desired)
    return kyma.metadata.being_deleted, desired, compared, watcher_rules.unheard(seen, desired)


PLANS: dict[str, tuple[Callable[[Kyma], object], str]] = {
    "mandatory-modules": (mandatory, MANDATORY_MODULES),
    "catalog": (catalog, CATALOG),
    "watcher": (watcher, WEBHOOK),
}
"""The plan of each controller, and the condition that it writes itself."""


def changes(own: str) -> Iterator[tuple[str, Kyma, Kyma]]:
    """Yield Kymas that differ in one part, which is not the controller's own, and the part's name."""
    for values in product(*PARTS.values()):
        parts = dict(zip(PARTS, values, strict=True))
        old = kyma_of(parts)
        for part, possible in PARTS.items():
            if part != own and parts[part] != possible[-1]:
                following = possible[possible.index(parts[part]) + 1]
                yield part, old, kyma_of(parts | {part: following})


@pytest.mark.parametrize("name", PLANS)
async def test_change_that_triggers_nothing_would_lead_to_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    triggers = recorded_triggers(monkeypatch)
    async with open_fleet():
        predicates = [
            each.options["when"]
            for each in triggers
            if each.controller.name == name and isinstance(each.source, Informer) and each.source.resource is KYMAS
        ]
    assert predicates
    plan, own = PLANS[name]
    unnoticed, quiet = set(), set()
    for part, old, new in changes(own):
        for before, after in ((old, new), (new, old)):
            if not any(is_change(Change(before, after)) for is_change in predicates):
                quiet.add(part)
                if plan(before) != plan(after):
                    unnoticed.add(part)
    assert not unnoticed
    assert {"channel", "state", MODULES} & quiet  # the trigger is narrower than any change
