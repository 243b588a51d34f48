"""What the rules of a catalog decide on: the Kyma, the wanted catalog, and its record.

Only LM writes the objects of a catalog, and they have no status. As long as their resource versions are the remembered
ones, they are unchanged, and listing the resource versions is enough. The record, which catalog an SKR has, is in the
status of the Kyma, so it outlives the process: after a restart no SKR has to be read at once.
"""

import hashlib
import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from kube_runtime import Causes, Clock, Informer, ObjectKey, Request, Revision
from lifecycle_manager.catalog_sync.wanted import Catalogs, WantedCatalog
from lifecycle_manager.contract.conditions import is_event_path_faulty
from lifecycle_manager.contract.signals import ClusterReplaced, ObjectChanged, ResyncRequested
from lifecycle_manager.module_catalog.controller import Offers
from lifecycle_manager.options.kymas import CatalogSettings
from lifecycle_manager.skr.announcement import Announcements
from lifecycle_manager_api import Kyma, ModuleReleaseMeta, ModuleTemplate, names

MAX_SILENT_SECONDS = 30.0
"""The interval while no events arrive from an SKR that should send some."""


@dataclass(frozen=True, slots=True)
class CatalogRecord:
    """What an SKR had after its last synchronization: the digests of the CRDs and of the wanted catalog."""

    crds: str = ""
    catalog: str = ""

    @classmethod
    def of(cls, kyma: Kyma) -> "CatalogRecord":
        """Return the record of a Kyma; an invalid one is empty."""
        crds, _, catalog = kyma.status.records.catalog.partition("/")
        return cls(crds, catalog) if catalog else cls()

    def __str__(self) -> str:
        return f"{self.crds}/{self.catalog}"


def fingerprint(revisions: Iterable[Revision | ModuleTemplate | ModuleReleaseMeta]) -> str:
    """Return a digest of the objects' names, uids and resource versions."""
    digest = hashlib.blake2b(digest_size=8)
    for metadata in sorted((each.metadata for each in revisions), key=lambda metadata: metadata.name):
        digest.update(f"{metadata.name}/{metadata.uid}/{metadata.resource_version}\n".encode())
    return digest.hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogSnapshot:
    """The catalog of an SKR, which is kept up to date until its Kyma is being deleted, and then removed.

    - `record`: that of the Kyma, with what this reconcile has added
    - `is_due`: the interval has passed, or something is suspected; else `seconds_until_due` remain
    - `interval_seconds`: until the next reconcile without a trigger
    - `purge_after`: finalizers of others are removed from objects of a Kyma that is being deleted for so long
    """

    kyma: Kyma
    now: datetime
    wanted: WantedCatalog
    record: CatalogRecord
    is_due: bool = True
    seconds_until_due: float = 0.0
    interval_seconds: float
    purge_after: timedelta | None = None


@dataclass(eq=False, slots=True)
class CatalogState:
    """The state of one Kyma.

    - `next_check`: the monotonic time of the next check; None before the first reconcile
    - `is_suspected`: the SKR may have other objects than it got, until they are checked; other CRDs, too, where it
      `is_replaced`
    - `announcements`: changes that a check has to show yet; until then there is something suspected
    - `fingerprints`: those of the objects as they were read or written last, by kind
    """

    next_check: float | None = None
    is_suspected: bool = False
    is_replaced: bool = False
    announcements: Announcements = field(default_factory=Announcements)
    fingerprints: dict[str, str] = field(default_factory=dict)

    def suspect(self, causes: Causes, *, now: float) -> None:
        """Note what may have changed. An event may come before its write, so what it announced is noted, too."""
        self.is_replaced |= causes.overflowed or bool(causes.of(ClusterReplaced))
        everything = self.is_replaced or bool(causes.of(ResyncRequested))
        for change in causes.of(ObjectChanged):
            if change.reference.namespace == names.SKR_NAMESPACE:
                everything |= not self.announcements.announce(change, now=now)
        self.is_suspected |= everything or bool(self.announcements.of())

    def checked(self, *, next_check: float) -> None:
        """Note that the catalog is as wanted."""
        self.is_suspected, self.is_replaced, self.next_check = False, False, next_check


@dataclass(frozen=True, eq=False)
class CatalogReader:
    """Reads what is known without the SKR."""

    kymas: Informer[Kyma]
    offers: Offers
    clock: Clock
    settings: CatalogSettings
    catalogs: Catalogs = field(default_factory=Catalogs)

    def read(self, request: Request[ObjectKey, CatalogState]) -> CatalogSnapshot | None:
        """Return the snapshot of a Kyma. A new process spreads the first checks over the interval."""
        kyma, state, now = self.kymas.get(request.key), request.state, self.clock.monotonic()
        if kyma is None:
            return None
        state.suspect(request.causes, now=now)
        if state.next_check is None:
            state.next_check = now + self.settings.interval_seconds * random.random()  # noqa: S311 - not for cryptography
        state.next_check = min(state.next_check, now + self._interval(kyma))  # it is shorter than before by a fault
        return CatalogSnapshot(
            kyma=kyma,
            now=self.clock.now(),
            wanted=self.catalogs.for_labels(self.offers.current(), kyma.metadata.labels),
            record=CatalogRecord() if state.is_replaced else CatalogRecord.of(kyma),
            is_due=state.is_suspected or now >= state.next_check,
            seconds_until_due=max(state.next_check - now, 0.0),
            interval_seconds=self._interval(kyma),
            purge_after=self.settings.purge.after,
        )

    def _interval(self, kyma: Kyma) -> float:
        if kyma.metadata.being_deleted:
            return self.settings.removal_interval_seconds
        usual = self.settings.interval_seconds
        return min(usual, MAX_SILENT_SECONDS) if is_event_path_faulty(kyma) else usual
