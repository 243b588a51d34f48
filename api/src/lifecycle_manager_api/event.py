"""The event that a Watcher sends: the reference of a changed object, without its content."""

from collections.abc import Mapping
from typing import Any

import msgspec

from lifecycle_manager_api.meta import Struct


class MalformedEvent(ValueError):
    """The body is not a valid event."""


class Watched(Struct, frozen=True, kw_only=True):
    """The object that changed."""

    namespace: str = msgspec.field(default="", name="Namespace")
    name: str = msgspec.field(default="", name="Name")


class WatchedGvk(Struct, frozen=True, kw_only=True):
    """The kind of the object that changed."""

    group: str = ""
    version: str = ""
    kind: str = ""


class WatchEvent(Struct, frozen=True, kw_only=True):
    """One change. `resource_version` is that of the object before the change, empty for a new object.

    A heartbeat has no object, but `counters` of the Watcher: `pending` is the number of changes that are not sent yet,
    `overflows` how often there were too many of them.
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
    """Return the event in a body; the keys of `watched` may be in lower case. Raises MalformedEvent."""
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
