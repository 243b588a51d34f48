"""Collecting what belongs to an owner that is gone, and what owners wait for that are being deleted.

An object whose owners are all gone goes too. One that is deleted in the foreground waits for those that it owns and
that block it; one whose dependents are to be orphaned releases them first.
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from kube_simulation.builtin import CRD, NAMESPACE
from kube_simulation.kinds import Kind
from kube_simulation.store import ObjectName, Storage, Store, Stored, StoredChange
from kube_simulation.writing import FOREGROUND, ORPHAN, StoreWriter

_MARK = b'"ownerReferences":'
_EMPTIED_FIRST = frozenset({NAMESPACE.storage, CRD.storage})
_HELD = (b'"foregroundDeletion"', b'"orphan"')


class _Owner(msgspec.Struct, rename="camel", gc=False):
    api_version: str
    kind: str
    name: str
    uid: str
    block_owner_deletion: bool = False


class _Metadata(msgspec.Struct, rename="camel", gc=False):
    uid: str = ""
    owner_references: list[_Owner] | None = None
    finalizers: list[str] | None = None
    deletion_timestamp: str | None = None


class _Object(msgspec.Struct, gc=False):
    metadata: _Metadata


_DECODER = msgspec.json.Decoder(_Object)


class GarbageCollector:
    """Follows the writes to one cluster. `kind_of` finds the kind of a table, `kind_named` that of an owner."""

    __slots__ = ("_dependents", "_kind_named", "_kind_of", "_store", "_writer")

    def __init__(
        self,
        store: Store,
        writer: StoreWriter,
        kind_of: Callable[[Storage], Kind | None],
        kind_named: Callable[[str, str], Kind | None],
    ) -> None:
        self._store = store
        self._writer = writer
        self._kind_of = kind_of
        self._kind_named = kind_named
        self._dependents: dict[str, set[tuple[Storage, ObjectName]]] = {}

    def follow(self, change: StoredChange) -> None:
        """Do what follows from a write. Those that neither own nor are owned cost two looks at their bytes."""
        self._remember(change)
        if change.deleted:
            self._follow_deletion(change)
            return
        if _MARK in change.after.body and not self._has_an_owner(change.after):
            self._delete(change.storage, change.after.key)
        elif any(mark in change.after.body for mark in _HELD):
            self._release(change.storage, change.after.key)

    def _remember(self, change: StoredChange) -> None:
        place = (change.storage, change.after.key)
        for stored, there in ((change.before, False), (change.after, not change.deleted)):
            for owner in _owners_of(stored):
                if there:
                    self._dependents.setdefault(owner.uid, set()).add(place)
                else:
                    self._dependents.get(owner.uid, set()).discard(place)

    def _follow_deletion(self, change: StoredChange) -> None:
        uid = _DECODER.decode(change.after.body).metadata.uid if self._dependents else ""
        for storage, key in sorted(self._dependents.pop(uid, ())):
            stored = self._store.table(storage).get(key)
            if stored is not None and not self._has_an_owner(stored):
                self._delete(storage, key)
        for owner in _owners_of(change.after):
            found = self._find(owner, change.after.namespace)
            if found is not None:
                self._release(*found)

    def _has_an_owner(self, stored: Stored) -> bool:
        owners = list(_owners_of(stored))
        return not owners or any(self._find(owner, stored.namespace) is not None for owner in owners)

    def _find(self, owner: _Owner, namespace: str) -> tuple[Storage, ObjectName] | None:
        """Return where an owner is. One of a kind that is not served is taken to be there, as nobody can tell."""
        kind = self._kind_named(owner.api_version, owner.kind)
        if kind is None:
            return ("", ""), ("", owner.name)
        key = (namespace if kind.namespaced else "", owner.name)
        stored = self._store.table(kind.storage).get(key)
        if stored is None or _DECODER.decode(stored.body).metadata.uid != owner.uid:
            return None
        return kind.storage, key

    def _release(self, storage: Storage, key: ObjectName) -> None:
        """Take the collector's own finalizer from an object, when what it stands for is done."""
        stored = self._store.table(storage).get(key)
        if stored is None:
            return
        metadata = _DECODER.decode(stored.body).metadata
        finalizers = metadata.finalizers or []
        if metadata.deletion_timestamp is None:
            return
        if ORPHAN in finalizers:
            self._orphan_dependents(metadata.uid)
            self._free(storage, key, ORPHAN)
        elif FOREGROUND in finalizers and not self._is_blocked(metadata.uid):
            self._free(storage, key, FOREGROUND)

    def _is_blocked(self, uid: str) -> bool:
        """Delete what an owner waits for; tell whether something that blocks it stays for a while."""
        for storage, key in sorted(self._dependents.get(uid, ())):
            self._delete(storage, key)
        left = (self._store.table(storage).get(key) for storage, key in self._dependents.get(uid, ()))
        return any(owner.uid == uid and owner.block_owner_deletion for stored in left for owner in _owners_of(stored))

    def _orphan_dependents(self, uid: str) -> None:
        for storage, key in sorted(self._dependents.get(uid, ())):
            stored = self._store.table(storage).get(key)
            if stored is not None:
                document = stored.document()
                owners = [each for each in document["metadata"]["ownerReferences"] if each["uid"] != uid]
                _put(document["metadata"], "ownerReferences", owners)
                self._store.write(storage, key, stored.api_version, document)

    def _free(self, storage: Storage, key: ObjectName, finalizer: str) -> None:
        stored = self._store.table(storage).get(key)
        if stored is None:
            return
        document = stored.document()
        left = [each for each in document["metadata"].get("finalizers") or () if each != finalizer]
        goes = not left and storage not in _EMPTIED_FIRST
        if not goes:
            _put(document["metadata"], "finalizers", left)
        self._store.write(storage, key, stored.api_version, document, delete=goes)

    def _delete(self, storage: Storage, key: ObjectName) -> None:
        kind, stored = self._kind_of(storage), self._store.table(storage).get(key)
        if kind is not None and stored is not None:
            self._writer.mark_deleted(kind, stored)


def _owners_of(stored: Stored | None) -> Iterator[_Owner]:
    if stored is not None and _MARK in stored.body:
        yield from _DECODER.decode(stored.body).metadata.owner_references or ()


def _put(metadata: dict[str, Any], field: str, values: list[Any]) -> None:
    if values:
        metadata[field] = values
    else:
        metadata.pop(field, None)
