"""An event that is signed as it should be, by somebody hostile: whatever it says, taking it does not fail.

Where it did, the endpoint would answer 500, and a replica that is handed it among others would refuse them all.
"""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from kube_runtime import ObjectKey
from kube_runtime.informer.cache import Cache
from lifecycle_manager.events import VerifiedEvent
from lifecycle_manager.routing import EventRouter
from lifecycle_manager.skr.announcement import Announcements
from lifecycle_manager.telemetry import ChangeLatency
from lifecycle_manager_api import MalformedEvent, decode_event, names
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


def router() -> EventRouter:
    """Return a router whose queues nobody reads."""
    kymas: Cache[Any] = Cache({"runtime": lambda kyma: [kyma.metadata.name]})
    kymas.put(ObjectKey(names.KCP_NAMESPACE, "demo"), builders.kyma("demo"))
    manifests: Cache[Any] = Cache({"kyma": lambda _: []})
    queued = SimpleNamespace(queue=SimpleNamespace(add=lambda *_: None))
    looks_after = SimpleNamespace(
        announcements=Announcements[Any](),
        wake=lambda *_: None,
        keys_for_kind=lambda *_: ["one"],
        heard_from=lambda _: True,
        canary_came_back=lambda _: True,
    )
    reconcilers = SimpleNamespace(
        kyma=looks_after, catalog=looks_after, manifest=looks_after, module_config=looks_after, skr_webhook=looks_after
    )
    controllers: Any = SimpleNamespace(
        reconcilers=reconcilers, kyma=queued, catalog=queued, manifest=queued, module_config=queued, skr_webhook=queued
    )
    of_kymas: Any = SimpleNamespace(cache=kymas)
    of_manifests: Any = SimpleNamespace(cache=manifests)
    return EventRouter(of_kymas, of_manifests, controllers, ChangeLatency(CollectorRegistry()))


def take(router: EventRouter, event: dict[str, Any]) -> None:
    """Have an event taken, as the endpoint does with what it has verified."""
    try:
        decoded = decode_event(msgspec.json.encode(event))
    except MalformedEvent:
        return
    router.take("demo", VerifiedEvent("demo", "lifecycle-manager", decoded, datetime.now(UTC)))


@given(first=EVENTS, second=EVENTS)
def test_any_event_is_processed(first: dict[str, Any], second: dict[str, Any]) -> None:
    routing = router()
    for event in (first, second, first):
        take(routing, event)


@pytest.mark.parametrize("name", ["kyma", "event", "self"])
def test_counters_may_have_any_name(name: str) -> None:
    take(router(), {"operation": "HEARTBEAT", "counters": {name: 1}})


def test_version_may_have_any_number_of_digits() -> None:
    routing = router()
    for version in ("9" * 5000, "7", "8" * 5000):
        take(routing, {"operation": "UPDATE", "resourceVersion": version, "watchedGvk": {"kind": "Thing"}})
