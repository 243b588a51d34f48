"""What a cluster does by itself after a write: serve kinds, empty what is being deleted, collect garbage.

A real cluster has controllers for this, which take a moment. Here it is done in the turn of the write, after its answer
was made, so that a client sees the same steps and nobody ever waits for them.
"""

from collections.abc import Callable, Mapping
from typing import Any

from kube_simulation.builtin import CRD, NAMESPACE
from kube_simulation.garbage import GarbageCollector
from kube_simulation.kinds import Kind, kinds_of_crd
from kube_simulation.store import Storage, Store, Stored, StoredChange
from kube_simulation.writing import CLEANUP, StoreWriter


class Lifecycle:
    """Follows the writes to one cluster. `kind_of` finds the kind of a table, `kind_named` one by version and name."""

    __slots__ = ("_garbage", "_kind_of", "_store", "_writer", "custom", "served_since")

    def __init__(
        self,
        store: Store,
        writer: StoreWriter,
        kind_of: Callable[[Storage], Kind | None],
        kind_named: Callable[[str, str], Kind | None],
    ) -> None:
        self._garbage = GarbageCollector(store, writer, kind_of, kind_named)
        self._store = store
        self._writer = writer
        self._kind_of = kind_of
        self.custom: dict[tuple[str, str, str], Kind] = {}
        self.served_since: dict[Storage, int] = {}

    def settle(self, changes: list[StoredChange]) -> None:
        """Do what follows from changes, and from what follows."""
        while changes:
            change = changes.pop(0)
            self._garbage.follow(change)
            if change.storage == CRD.storage:
                self._follow_crd(change)
            elif change.storage == NAMESPACE.storage:
                self._follow_namespace(change.after, deleted=change.deleted)
            elif change.deleted:
                self._follow_deletion(change)

    def _follow_crd(self, change: StoredChange) -> None:
        crd = change.after.document()
        storage = (crd["spec"]["group"], crd["spec"]["names"]["plural"])
        self.custom = {key: kind for key, kind in self.custom.items() if kind.storage != storage}
        if change.deleted:
            self.served_since.pop(storage, None)
            return
        self.served_since.setdefault(storage, change.version)
        for kind in kinds_of_crd(crd):
            self.custom[kind.group, kind.version, kind.plural] = kind
        if crd["metadata"].get("deletionTimestamp"):
            self._empty_crd(change.after, crd)
        elif not (crd.get("status") or {}).get("conditions"):
            crd["status"] = _established(crd, crd["metadata"].get("creationTimestamp", ""))
            self._store.write(CRD.storage, change.after.key, CRD.api_version, crd)

    def _empty_crd(self, stored: Stored, crd: Mapping[str, Any]) -> None:
        storage = (crd["spec"]["group"], crd["spec"]["names"]["plural"])
        kind = self._kind_of(storage)
        if kind is not None:
            for each in tuple(self._store.table(storage).in_order()):
                self._writer.mark_deleted(kind, each)
        if not len(self._store.table(storage)):
            self._remove(CRD, stored)

    def _follow_namespace(self, stored: Stored, *, deleted: bool) -> None:
        if deleted or not stored.document()["metadata"].get("deletionTimestamp"):
            return
        empty = True
        for storage in self._store.storages():
            kind = self._kind_of(storage)
            if kind is None or not kind.namespaced:
                continue
            for each in tuple(self._store.table(storage).in_order()):
                if each.namespace == stored.name and self._writer.mark_deleted(kind, each) is not None:
                    empty = False
        if empty:
            self._remove(NAMESPACE, stored)

    def _follow_deletion(self, change: StoredChange) -> None:
        """Process again what waited for this object to be deleted."""
        if change.after.namespace:
            namespace = self._store.table(NAMESPACE.storage).get(("", change.after.namespace))
            if namespace is not None:
                self._follow_namespace(namespace, deleted=False)
        group, plural = change.storage
        crd = self._store.table(CRD.storage).get(("", f"{plural}.{group}"))
        if crd is not None:
            document = crd.document()
            if document["metadata"].get("deletionTimestamp"):
                self._empty_crd(crd, document)

    def _remove(self, kind: Kind, stored: Stored) -> None:
        current = self._store.table(kind.storage).get(stored.key)
        if current is None:
            return
        document = current.document()
        held_by = [each for each in document["metadata"].get("finalizers") or () if each != CLEANUP]
        if not held_by:
            self._store.write(kind.storage, stored.key, stored.api_version, document, delete=True)


def _established(crd: Mapping[str, Any], now: str) -> dict[str, Any]:
    spec = crd["spec"]
    reasons = {
        "NamesAccepted": ("NoConflicts", "no conflicts found"),
        "Established": ("InitialNamesAccepted", "the initial names have been accepted"),
    }
    conditions = [
        {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now}
        for kind, (reason, message) in reasons.items()
    ]
    stored = [version["name"] for version in spec["versions"] if version.get("storage")]
    return {"conditions": conditions, "acceptedNames": spec["names"], "storedVersions": stored}
