"""The event that a Watcher sends: which object changed. A hint, never data."""

from collections.abc import Mapping
from typing import Any

import msgspec

from lifecycle_manager_api.meta import Struct


class MalformedEvent(ValueError):
    """The body is no event."""


class Watched(Struct, frozen=True, kw_only=True):
    """The object that changed."""

    namespace: str = msgspec.field(default="", name="Namespace")
    name: str = msgspec.field(default="", name="Name")


class WatchedGvk(Struct, frozen=True, kw_only=True):
    """Its kind."""

    group: str = ""
    version: str = ""
    kind: str = ""


class WatchEvent(Struct, frozen=True, kw_only=True):
    """One change. `resource_version` is that of the object before it, empty for a new one.

    A heartbeat has no object, and `counters` of the Watcher: `pending` changes that are still to be told, and
    `overflows`, how often there were too many.
    """

    watched: Watched = Watched()
    watched_gvk: WatchedGvk = WatchedGvk()
    id: str = ""
    operation: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    epoch: str = ""
    sequence: int = 0
    observed_at: str = ""
    traceparent: str = ""
    counters: Mapping[str, int] = {}


def decode_event(body: bytes) -> WatchEvent:
    """Return the event in a body; the keys of `watched` come in either case. Raises MalformedEvent."""
    try:
        document: dict[str, Any] = msgspec.json.decode(body, type=dict[str, Any])
        watched = document.get("watched")
        if isinstance(watched, dict):
            document["watched"] = {str(key).capitalize(): value for key, value in watched.items()}
        return msgspec.convert(document, WatchEvent)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedEvent(str(error)) from None


def encode_event(event: WatchEvent) -> bytes:
    """Return the body of an event."""
    return msgspec.json.encode(event)
