"""What an applier remembers of each object: the last applied document, and the object right after that.

An object is in its desired state when the same document was applied last and its content is the same as right after
that. Content excludes status, version counters and what others own. What the applier owns belongs to it: a value that
somebody else has changed and changed back is theirs, and would stay when it leaves the document.
"""

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from kube_runtime.apply.field_sets import applied_by
from kube_runtime.apply.objects import InventoryEntry
from kube_runtime.resource import JsonObject

_ENCODER = msgspec.json.Encoder(order="sorted")
_VOLATILE = frozenset({"resourceVersion", "generation", "managedFields"})
_DIGEST_BYTES = 16
_MAX_CHARACTERS = 128
"""Of a uid or version, several times what Kubernetes gives: they are remembered of each object."""


class ApplyMemory:
    """Remembers the last apply of each object: digests of document and content, uid and version, as one bytes."""

    __slots__ = ("_applied",)

    def __init__(self) -> None:
        self._applied: dict[tuple[str, str, str, str], bytes] = {}

    def has_same_document(self, entry: InventoryEntry, document: bytes) -> bool:
        """Tell whether exactly this was applied last."""
        return self._applied.get(entry.identity, b"").startswith(document)

    def knows(self, entry: InventoryEntry) -> bool:
        """Tell whether anything was applied."""
        return entry.identity in self._applied

    def uid_of(self, entry: InventoryEntry) -> str:
        """Return which object was applied, empty where none was."""
        return self._applied.get(entry.identity, b"")[2 * _DIGEST_BYTES :].partition(b"\n")[0].decode()

    def is_as_applied(self, entry: InventoryEntry, document: bytes, live: JsonObject, field_manager: str) -> bool:
        """Tell whether exactly this was applied last, and the object has the content and the owned fields of then."""
        if not self.has_same_document(entry, document) or live["metadata"].get("deletionTimestamp"):
            return False
        content, revision = self._applied[entry.identity][_DIGEST_BYTES:], _revision_of(live)
        if content[_DIGEST_BYTES:] == revision:
            return True
        return self.uid_of(entry) == _uid_of(live) and content.startswith(_content_of(live, field_manager))

    def remember(self, entry: InventoryEntry, document: bytes, live: JsonObject, field_manager: str) -> None:
        """Keep what was applied and what came of it; nothing where the object is being deleted."""
        if live["metadata"].get("deletionTimestamp"):
            self.forget(entry)
            return
        self._applied[_seen_first(entry.identity)] = document + _content_of(live, field_manager) + _revision_of(live)

    def forget(self, entry: InventoryEntry) -> None:
        """Drop an object."""
        self._applied.pop(entry.identity, None)


def digest_of(value: Mapping[str, Any]) -> bytes:
    """Return a digest that is the same for the same JSON value, whatever the order of its keys."""
    return hashlib.blake2b(_ENCODER.encode(value), digest_size=_DIGEST_BYTES).digest()


def _content_of(live: JsonObject, field_manager: str) -> bytes:
    metadata = {key: value for key, value in live["metadata"].items() if key not in _VOLATILE}
    metadata["managedFields"] = applied_by(field_manager, live)
    return digest_of({**{key: value for key, value in live.items() if key != "status"}, "metadata": metadata})


def _revision_of(live: JsonObject) -> bytes:
    return f"{_uid_of(live)}\n{str(live['metadata'].get('resourceVersion', ''))[:_MAX_CHARACTERS]}".encode()


def _uid_of(live: JsonObject) -> str:
    return str(live["metadata"].get("uid", ""))[:_MAX_CHARACTERS]


@lru_cache(maxsize=5_000)  # many clusters have the same objects
def _seen_first(identity: tuple[str, str, str, str]) -> tuple[str, str, str, str]:
    return identity
