"""A validly signed event of a hostile sender: taking it never fails, whatever it contains.

If it failed, the endpoint would answer 500, and a replica that gets it in a batch would refuse the whole batch.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from kube_runtime import SYSTEM_CLOCK, Manager, ObjectKey, Resource
from lifecycle_manager.contract.resources import KYMAS
from lifecycle_manager.contract.signals import ObjectChanged, ResyncReported
from lifecycle_manager.events.endpoint import VerifiedEvent
from lifecycle_manager.events.publishing import EventPublisher
from lifecycle_manager.process.telemetry import ChangeLatency
from lifecycle_manager.skr.announcement import Announcements
from lifecycle_manager_api import MalformedEvent, decode_event, names
from lifecycle_manager_api.event import MAX_TEXT_LENGTH
from tests import builders

TEXT = st.text(max_size=20) | st.sampled_from(
    ["9" * 5000, "UPDATE", "CREATE", "DELETE", "HEARTBEAT", "RESYNC", "canary"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
TEXTS = ["id", "operation", "uid", "resourceVersion", "epoch", "observedAt", "traceparent"]
KINDS = st.sampled_from(["Kyma", "ModuleTemplate", "Thing", ""])
GROUPS = st.sampled_from([names.GROUP, "example.com", ""])
EVENTS = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(TEXTS, TEXT),
        "generation": st.integers(),
        "sequence": st.integers(),
        "counters": st.dictionaries(st.sampled_from(["pending", "kyma", "event", "level", "self"]), st.integers())
        | JSON,
        "watched": st.dictionaries(st.sampled_from(["Namespace", "name", "NAME"]), TEXT) | JSON,
        "watchedGvk": st.fixed_dictionaries({"group": GROUPS, "version": TEXT, "kind": KINDS}),
    },
)

HOSTILE = st.sampled_from(
    [b"9" * 5000, b'"' + b"9" * 5000 + b'"', b'".."', b'"\\ud800"', b"[" * 5000, b'"\xff"', b"1e999"]
)
BODIES = (
    st.binary(max_size=200)
    | EVENTS.map(msgspec.json.encode)
    | st.tuples(
        EVENTS.map(msgspec.json.encode), st.sampled_from(sorted({*TEXTS, "generation", "watched"})), HOSTILE
    ).map(
        lambda parts: b'{"%s":%s,' % (parts[1].encode(), parts[2]) + (parts[0][1:] if parts[0] != b"{}" else b'"x":1}')
    )
)
"""Bodies of events, some with values that JSON allows and Python does not take."""


def publisher(*receivers: tuple[type[Any], Callable[[Any], None]]) -> EventPublisher:
    """Return a publisher for one Kyma, with a controller that keeps what is announced, and receivers of signals."""
    no_client: Any = None
    manager = Manager(no_client, namespace=names.KCP_NAMESPACE)
    for signal, receiver in receivers:
        manager.on(signal, receiver)
    made = EventPublisher(manager, ChangeLatency(CollectorRegistry(), SYSTEM_CLOCK))
    kymas: Any = manager.informer(KYMAS).cache
    kymas.put(ObjectKey(names.KCP_NAMESPACE, "demo"), builders.kyma("demo"))
    pending = Announcements()
    manager.on(ObjectChanged, lambda change: note(pending, change))
    return made


def note(pending: Announcements, change: ObjectChanged) -> None:
    pending.announce(change, now=0.0)


def take(publisher: EventPublisher, event: dict[str, Any]) -> None:
    """Have an event taken, as the endpoint does with what it has verified."""
    try:
        decoded = decode_event(msgspec.json.encode(event))
    except MalformedEvent:
        return
    publisher.take("demo", VerifiedEvent("demo", "lifecycle-manager", decoded, datetime.now(UTC)))


@given(first=EVENTS, second=EVENTS)
def test_any_event_is_processed(first: dict[str, Any], second: dict[str, Any]) -> None:
    publishing = publisher()
    for event in (first, second, first):
        take(publishing, event)


@pytest.mark.parametrize("name", ["kyma", "event", "self"])
def test_counters_may_have_any_name(name: str) -> None:
    take(publisher(), {"operation": "HEARTBEAT", "counters": {name: 1}})


def test_version_may_have_any_number_of_digits() -> None:
    publishing = publisher()
    for version in ("9" * 5000, "7", "8" * 5000):
        take(publishing, {"operation": "UPDATE", "resourceVersion": version, "watchedGvk": {"kind": "Thing"}})


@pytest.mark.parametrize("name", [".", "..", "a/b", "a%2fb", "a\n", "a\x00", "n" * 254])
def test_event_with_a_name_that_addresses_another_path_is_refused(name: str) -> None:
    with pytest.raises(MalformedEvent):
        decode_event(msgspec.json.encode({"watched": {"Name": name}}))
    with pytest.raises(MalformedEvent):
        decode_event(msgspec.json.encode({"watched": {"Namespace": name, "Name": "default"}}))


def test_event_without_a_name_reads_everything() -> None:
    published: list[object] = []
    publishing = publisher((ResyncReported, published.append))
    take(publishing, {"operation": "UPDATE", "watchedGvk": {"kind": "Thing"}})
    assert published == [ResyncReported("demo")]


@pytest.mark.parametrize("field", TEXTS)
def test_fields_that_reach_logs_and_annotations_are_short(field: str) -> None:
    assert decode_event(msgspec.json.encode({field: "x" * MAX_TEXT_LENGTH}))
    with pytest.raises(MalformedEvent):
        decode_event(msgspec.json.encode({field: "x" * (MAX_TEXT_LENGTH + 1)}))


@pytest.mark.parametrize("number", [b"9" * 30, b"9" * 5000])
def test_number_beyond_64_bits_is_refused(number: bytes) -> None:
    for body in (b'{"generation":%s}' % number, b'{"counters":{"pending":%s}}' % number):
        with pytest.raises(MalformedEvent):
            decode_event(body)


@given(BODIES)
def test_any_bytes_become_signals_or_a_refusal(body: bytes) -> None:
    try:
        event = decode_event(body)
    except MalformedEvent:
        return
    reads: list[ObjectChanged] = []
    publishing = publisher((ObjectChanged, reads.append))
    publishing.take("demo", VerifiedEvent("demo", "lifecycle-manager", event, datetime.now(UTC)))
    for change in reads:
        reference = change.reference
        assert Resource.dynamic(reference.group, "v1", reference.kind, "things", True).path(
            reference.namespace or "default", reference.name
        )
        assert max(map(len, (change.trace.event_id, change.trace.traceparent, change.trace.observed_at))) <= 128
