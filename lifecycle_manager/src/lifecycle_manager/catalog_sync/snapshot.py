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
from lifecycle_manager.catalog_sync.wanted import CRDS_DIGEST, KINDS, Catalogs, WantedCatalog
from lifecycle_manager.contract.conditions import is_event_path_faulty
from lifecycle_manager.contract.signals import CatalogRecorded, ClusterReplaced, ObjectChanged, ResyncRequested
from lifecycle_manager.module_catalog import Offers
from lifecycle_manager.skr import Announcements
from lifecycle_manager_api import Kyma, ModuleReleaseMeta, ModuleTemplate, names

MAX_SILENT_SECONDS = 30.0
"""The interval while no events arrive from an SKR that should send some."""
MAX_HOLD_SECONDS = 15.0
"""How long the record of a changed catalog may wait for another write to the Kyma's status.

A new version is in the catalog at once; some seconds later the status of each Kyma with that module is written.
"""


@dataclass(frozen=True, slots=True)
class CatalogRecord:
    """What an SKR had after its last synchronization: the digests of the CRDs and of the wanted catalog."""

    crds: str = ""
    catalog: str = ""

    @classmethod
    def of(cls, kyma: Kyma) -> "CatalogRecord":
        """Return the record of a Kyma."""
        return cls.parse(kyma.status.records.catalog)

    @classmethod
    def parse(cls, text: str) -> "CatalogRecord":
        """Return a record; an invalid one is empty. Those of earlier versions have more parts."""
        parts = text.split("/")
        return cls(*parts[:2]) if len(parts) > 1 else cls()

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

    - `record`: that of the Kyma, or the newer one that is not written yet, with what this reconcile has added
    - `hold_seconds`: for how long the writing of a newer record may wait for another write to the Kyma's status
    - `former`: the catalog that the SKR has; None where that is not known, or not remembered
    - `crds_digest`: of the CRDs that the SKR has to have
    - `kinds_to_check`: the kinds whose resource versions are listed, if anything is
    - `is_due`: the interval has passed, or something is suspected; else `seconds_until_due` remain
    - `is_suspected`: something says that the SKR has other objects than it got, such as an event
    - `interval_seconds`: until the next reconcile without a trigger
    - `purge_after`: finalizers of others are removed from objects of a Kyma that is being deleted for so long
    """

    kyma: Kyma
    now: datetime
    wanted: WantedCatalog
    record: CatalogRecord
    hold_seconds: float = 0.0
    former: WantedCatalog | None = None
    crds_digest: str = CRDS_DIGEST
    kinds_to_check: tuple[str, ...] = KINDS
    is_due: bool = True
    is_suspected: bool = False
    seconds_until_due: float = 0.0
    interval_seconds: float
    purge_after: timedelta | None = None


@dataclass(eq=False, slots=True)
class CatalogState:
    """The state of one Kyma.

    - `next_check`: the monotonic time of the next check; None before the first reconcile
    - `turn`: which kind is checked then, as an index of KINDS
    - `suspected`: kinds that may have changed, until they are checked
    - `announcements`: changes that a check has to show yet; until then their kinds are suspected
    - `fingerprints`: those of the objects as they were read or written last, by kind
    - `confirmed`: the catalog that this process has found in the SKR, or brought there; that of the record may be older
    - `held`: a record that is not written yet, and until when that may wait
    """

    next_check: float | None = None
    turn: int = 0
    suspected: tuple[str, ...] = ()
    announcements: Announcements = field(default_factory=Announcements)
    fingerprints: dict[str, str] = field(default_factory=dict)
    confirmed: str = ""
    held: tuple[CatalogRecorded, float] | None = None

    def hold(self, recorded: CatalogRecorded, *, until: float) -> None:
        """Note a record that is not written yet; a newer one waits no longer than the first."""
        self.held = (recorded, until if self.held is None else self.held[1])

    def suspect(self, causes: Causes, *, now: float) -> None:
        """Note which kinds may have changed. An event may come before its write, so what it announced is noted, too."""
        everything = causes.overflowed or any(isinstance(each, ClusterReplaced | ResyncRequested) for each in causes)
        for change in causes.of(ObjectChanged):
            if change.reference.namespace == names.SKR_NAMESPACE:
                everything |= not self.announcements.announce(change, now=now)
        suspected = KINDS if everything else {each.object.kind for each in self.announcements.of()}
        self.suspected = tuple(sorted({*self.suspected, *suspected}))

    def doubt(self) -> None:
        """Note that only some of the objects may be written: nothing of the SKR is known until all is checked."""
        self.confirmed, self.suspected = "", KINDS

    def checked(self, *, next_check: float) -> None:
        """Note that the catalog is as wanted: the other kind is checked next."""
        if not self.suspected:
            self.turn = (self.turn + 1) % len(KINDS)
        self.suspected = ()
        self.next_check = next_check


@dataclass(frozen=True, eq=False, kw_only=True)
class CatalogReader:
    """Reads what is known without the SKR."""

    kymas: Informer[Kyma]
    offers: Offers
    clock: Clock
    interval_seconds: float
    removal_interval_seconds: float
    purge_after: timedelta | None
    catalogs: Catalogs = field(default_factory=Catalogs)

    def read(self, request: Request[ObjectKey, CatalogState]) -> CatalogSnapshot | None:
        """Return the snapshot of a Kyma. A new process spreads the first checks over the interval."""
        kyma, state, now = self.kymas.get(request.key), request.state, self.clock.monotonic()
        if kyma is None:
            return None
        state.suspect(request.causes, now=now)
        if state.next_check is None:
            state.next_check = now + self.interval_seconds * random.random()  # noqa: S311 - not for cryptography
        if state.held is not None and state.held[0].before != kyma.status.records.catalog:
            state.held = None  # it is written
        record, until = CatalogRecord.of(kyma), now + MAX_HOLD_SECONDS
        if state.held is not None:
            record, until = CatalogRecord.parse(state.held[0].record), state.held[1]
        return CatalogSnapshot(
            kyma=kyma,
            now=self.clock.now(),
            wanted=self.catalogs.for_labels(self.offers.current(), kyma.metadata.labels),
            record=record,
            hold_seconds=max(until - now, 0.0),
            former=self.catalogs.of_digest(record.catalog) if record.catalog == state.confirmed else None,
            kinds_to_check=state.suspected or (KINDS[state.turn],),
            is_due=bool(state.suspected) or now >= state.next_check,
            is_suspected=bool(state.suspected),
            seconds_until_due=max(state.next_check - now, 0.0),
            interval_seconds=self._interval(kyma),
            purge_after=self.purge_after,
        )

    def _interval(self, kyma: Kyma) -> float:
        if kyma.metadata.being_deleted:
            return self.removal_interval_seconds
        return min(self.interval_seconds, MAX_SILENT_SECONDS) if is_event_path_faulty(kyma) else self.interval_seconds
