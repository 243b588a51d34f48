"""The objects of one cluster, their past as far as it is kept, and the one counter of its resource versions.

An object is stored as the bytes that are sent of it, so that a read costs nothing, many clusters fit into one process,
and nobody can change by accident what somebody else holds. Each write is one step of the counter and one entry of the
history, which is all that watches and pages need: a watch is a place in it, and the past is what is there now with the
newer entries taken back.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

import msgspec

Storage = tuple[str, str]
ObjectName = tuple[str, str]
"""Namespace and name."""

_NO_LABELS: dict[str, str] = {}


class _Metadata(msgspec.Struct, gc=False):
    labels: dict[str, str] | None = None


class _Labelled(msgspec.Struct, gc=False):
    metadata: _Metadata


_LABELS = msgspec.json.Decoder(_Labelled)


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """One state of one object."""

    namespace: str
    name: str
    version: int
    api_version: str
    body: bytes

    @property
    def key(self) -> ObjectName:
        """Namespace and name."""
        return self.namespace, self.name

    @property
    def labels(self) -> dict[str, str]:
        """The labels, decoded at each call."""
        return _LABELS.decode(self.body).metadata.labels or _NO_LABELS

    def document(self) -> dict[str, Any]:
        """Return the object, decoded at each call: a copy of the caller's own."""
        document: dict[str, Any] = msgspec.json.decode(self.body)
        return document


@dataclass(frozen=True, slots=True, eq=False)
class StoredChange:
    """One write: what was there before (None: nothing) and what is there after it, the last state of a deleted one."""

    version: int
    storage: Storage
    before: Stored | None
    after: Stored
    deleted: bool


class KindStore:
    """The objects of one kind, in the order of their names."""

    __slots__ = ("_objects", "_ordered")

    def __init__(self, objects: dict[ObjectName, Stored] | None = None) -> None:
        self._objects: dict[ObjectName, Stored] = {} if objects is None else objects
        self._ordered: list[ObjectName] | None = None

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, key: ObjectName) -> Stored | None:
        """Return an object, None where there is none."""
        return self._objects.get(key)

    def in_order(self, after: ObjectName | None = None) -> Iterable[Stored]:
        """Yield the objects by namespace and name, from behind a key on."""
        names = self._names()
        start = 0 if after is None else bisect_right(names, after)
        return (self._objects[key] for key in islice(names, start, None))

    def count_after(self, key: ObjectName) -> int:
        """Return how many objects come behind a key."""
        return len(self._objects) - bisect_right(self._names(), key)

    def _names(self) -> list[ObjectName]:
        if self._ordered is None:
            self._ordered = sorted(self._objects)
        return self._ordered

    def put(self, stored: Stored) -> None:
        """Store a state of an object."""
        if stored.key not in self._objects:
            self._ordered = None
        self._objects[stored.key] = stored

    def remove(self, key: ObjectName) -> None:
        """Take an object out."""
        if self._objects.pop(key, None) is not None:
            self._ordered = None

    def copy(self) -> "KindStore":
        """Return a table of the same objects that does not change with this one."""
        return KindStore(dict(self._objects))


_EMPTY = KindStore()


class Store:
    """All objects of a cluster. `history` is how many writes are remembered."""

    __slots__ = ("_changes", "_compacted", "_history", "_offset", "_tables", "on_change", "version")

    def __init__(self, history: int) -> None:
        self.version = 0
        self.on_change: Callable[[StoredChange], None] | None = None
        self._history = history
        self._tables: dict[Storage, KindStore] = {}
        self._changes: list[StoredChange] = []
        self._offset = 0
        self._compacted = 0

    @property
    def oldest(self) -> int:
        """The version after which everything is remembered."""
        return max(self._compacted, self.version - self._history)

    def compact(self) -> None:
        """Forget the past: watches and pages of older versions get 410."""
        self._compacted = self._offset = self.version
        self._changes = []

    def table(self, storage: Storage) -> KindStore:
        """Return the objects of a kind as they are."""
        return self._tables.get(storage, _EMPTY)

    def storages(self) -> tuple[Storage, ...]:
        """Return the kinds that there are objects of."""
        return tuple(storage for storage, table in self._tables.items() if len(table))

    def table_at(self, storage: Storage, version: int) -> KindStore | None:
        """Return the objects of a kind as they were at a version, None where that is forgotten."""
        if version >= self.version:
            return self.table(storage)
        if version < self.oldest:
            return None
        table = self.table(storage).copy()
        for change in reversed(self._changes[version - self._offset :]):
            if change.storage == storage:
                if change.before is None:
                    table.remove(change.after.key)
                else:
                    table.put(change.before)
        return table

    def changes_after(self, version: int, until: int | None = None) -> list[StoredChange]:
        """Return the writes after a version. It must not be older than `oldest`."""
        end = None if until is None else max(0, until - self._offset)
        return self._changes[max(0, version - self._offset) : end]

    def write(
        self, storage: Storage, key: ObjectName, api_version: str, document: dict[str, Any], *, delete: bool = False
    ) -> Stored:
        """Write a state of an object, or its last one, under the next version, which is noted in the document."""
        self.version += 1
        document["metadata"]["resourceVersion"] = str(self.version)
        after = Stored(key[0], key[1], self.version, api_version, msgspec.json.encode(document))
        table = self._tables.get(storage)
        if table is None:
            table = self._tables[storage] = KindStore()
        before = table.get(key)
        if delete:
            table.remove(key)
        else:
            table.put(after)
        change = StoredChange(self.version, storage, before, after, delete)
        self._changes.append(change)
        if len(self._changes) > 2 * self._history:
            del self._changes[: -self._history]
            self._offset = self.version - self._history
        if self.on_change is not None:
            self.on_change(change)
        return after
