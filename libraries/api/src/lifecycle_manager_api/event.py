"""The event that a Watcher sends: the reference of a changed object, without its content."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from kube_crds import Struct

MAX_TEXT_LENGTH, MAX_NAME_LENGTH, MAX_COUNTERS = 128, 253, 16

Text = Annotated[str, msgspec.Meta(max_length=MAX_TEXT_LENGTH)]
# What Kubernetes accepts as a name, and the empty one: `.`, `..`, `/` and `%` would be another path.
Name = Annotated[str, msgspec.Meta(max_length=MAX_NAME_LENGTH, pattern=r"^(?!\.{1,2}$)[^/%\x00-\x1f\x7f]*$(?!\n)")]
Number = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class MalformedEvent(ValueError):
    """The body is not a valid event."""


class Watched(Struct, frozen=True, kw_only=True):
    """The object that changed."""

    namespace: Name = msgspec.field(default="", name="Namespace")
    name: Name = msgspec.field(default="", name="Name")


class WatchedGvk(Struct, frozen=True, kw_only=True):
    """The kind of the object that changed."""

    group: Name = ""
    version: Name = ""
    kind: Name = ""


class WatchEvent(Struct, frozen=True, kw_only=True):
    """One change. `resource_version` is that of the object before the change, empty for a new object.

    A heartbeat has no object, but `counters` of the Watcher: `pending` is the number of changes that are not sent yet,
    `overflows` how often there were too many of them. `challenge` is what the control plane wrote into its canary.
    """

    watched: Watched = Watched()
    watched_gvk: WatchedGvk = WatchedGvk()
    id: Text = ""
    operation: Text = ""
    uid: Text = ""
    resource_version: Text = ""
    generation: Number = 0
    epoch: Text = ""
    sequence: Number = 0
    observed_at: Text = ""
    traceparent: Text = ""
    challenge: Text = ""
    counters: Annotated[Mapping[Text, Number], msgspec.Meta(max_length=MAX_COUNTERS)] = {}


_DECODER = msgspec.json.Decoder(WatchEvent)


def decode_event(body: bytes) -> WatchEvent:
    """Return the event in a body; the keys of `watched` may be in lower case. Raises MalformedEvent."""
    try:
        event = _DECODER.decode(body)
        if event.watched.name:
            return event
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
