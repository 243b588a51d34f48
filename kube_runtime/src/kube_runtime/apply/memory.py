"""What an applier remembers of each object: the last applied document, and the object right after that.

An object is in its desired state when the same document was applied last and its content is the same as right after
that. Content excludes status, version counters and managedFields.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from kube_runtime.apply.objects import InventoryEntry
from kube_runtime.resource import JsonObject

__all__ = ["ApplyMemory", "digest_of"]

_ENCODER = msgspec.json.Encoder(order="sorted")
_VOLATILE = frozenset({"resourceVersion", "generation", "managedFields"})


@dataclass(frozen=True, slots=True)
class _Applied:
    document: bytes
    uid: str
    version: str
    content: bytes


class ApplyMemory:
    """Remembers the last apply of each object, in a few dozen bytes."""

    __slots__ = ("_applied",)

    def __init__(self) -> None:
        self._applied: dict[tuple[str, str, str, str], _Applied] = {}

    def has_same_document(self, entry: InventoryEntry, document: bytes) -> bool:
        """Tell whether exactly this was applied last."""
        applied = self._applied.get(entry.identity)
        return applied is not None and applied.document == document

    def knows(self, entry: InventoryEntry) -> bool:
        """Tell whether anything was applied."""
        return entry.identity in self._applied

    def uid_of(self, entry: InventoryEntry) -> str:
        """Return which object was applied, empty where none was."""
        applied = self._applied.get(entry.identity)
        return applied.uid if applied is not None else ""

    def is_as_applied(self, entry: InventoryEntry, document: bytes, live: JsonObject) -> bool:
        """Tell whether exactly this was applied last and the object still has the content that it had then."""
        applied = self._applied.get(entry.identity)
        metadata = live["metadata"]
        if applied is None or applied.document != document or applied.uid != metadata.get("uid"):
            return False
        if metadata.get("deletionTimestamp"):
            return False
        return applied.version == metadata.get("resourceVersion") or applied.content == _content_of(live)

    def remember(self, entry: InventoryEntry, document: bytes, live: JsonObject) -> None:
        """Keep what was applied and what came of it."""
        metadata = live["metadata"]
        self._applied[entry.identity] = _Applied(
            document, str(metadata.get("uid", "")), str(metadata.get("resourceVersion", "")), _content_of(live)
        )

    def forget(self, entry: InventoryEntry) -> None:
        """Drop an object."""
        self._applied.pop(entry.identity, None)


def digest_of(value: Mapping[str, Any]) -> bytes:
    """Return a digest that is the same for the same JSON value, whatever the order of its keys."""
    return hashlib.blake2b(_ENCODER.encode(value), digest_size=16).digest()


def _content_of(live: JsonObject) -> bytes:
    metadata = {key: value for key, value in live["metadata"].items() if key not in _VOLATILE}
    return digest_of({**{key: value for key, value in live.items() if key != "status"}, "metadata": metadata})
