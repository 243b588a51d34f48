"""What the plan of a catalog is decided on: the Kyma, the wanted catalog, and what the steps so far have shown."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from kube_runtime import Revision
from lifecycle_manager.catalog_sync.record import Record
from lifecycle_manager.catalog_sync.wanted import Item, Key, WantedCatalog
from lifecycle_manager_api import Kyma


@dataclass(frozen=True, slots=True)
class SyncSnapshot:
    """The catalog of an SKR that has to be kept up to date.

    - `crds_digest`: of the CRDs that the SKR has to have
    - `kinds_to_check`: the kinds whose resource versions are listed, if anything is
    - `is_due`: the interval has passed, or an event reported a change; else `seconds_until_due` remain
    - `record`: that of the Kyma, with what the steps added
    - `new_kinds`: those whose CRD a step has just created, so there are no objects of them yet
    - `are_crds_missing`: the SKR answered that it does not know a kind; `were_crds_missing`: it did so before
    - `changed_kinds`: kinds whose objects differ from the record; None until their resource versions are listed
    - `live`: LM's objects of the changed kinds in the SKR; None until they are read
    """

    kyma: Kyma
    wanted: WantedCatalog
    record: Record
    crds_digest: str
    kinds_to_check: tuple[str, ...]
    is_due: bool
    seconds_until_due: float
    interval_seconds: float
    new_kinds: frozenset[str] = frozenset()
    are_crds_missing: bool = False
    were_crds_missing: bool = False
    changed_kinds: tuple[str, ...] | None = None
    live: Mapping[Key, Item] | None = None


@dataclass(frozen=True, slots=True)
class RemovalSnapshot:
    """The catalog of an SKR whose Kyma is being deleted. A kind without CRD is in neither mapping.

    - `own`: LM's objects before the deletion, by kind; None until they are listed
    - `remaining`: all objects after the deletion, whoever created them; None until they are listed
    - `purge_after`: finalizers of others are removed from objects of a Kyma that is being deleted for so long
    """

    kyma: Kyma
    now: datetime
    purge_after: timedelta | None
    interval_seconds: float
    own: Mapping[str, tuple[Revision, ...]] | None = None
    are_deleted: bool = False
    remaining: Mapping[str, tuple[Revision, ...]] | None = None
    deleted_crds: frozenset[str] = frozenset()
    are_finalizers_removed: bool = False
