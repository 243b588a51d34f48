"""An event becomes the signals that its content calls for, for the Kymas of its sender alone."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from prometheus_client import CollectorRegistry

from kube_runtime import Controller, Manager
from lifecycle_manager.contract.resources import KYMAS, WATCHERS
from lifecycle_manager.contract.signals import (
    ObjectChanged,
    ObjectReference,
    ResyncReported,
    Trace,
    UnclaimedChange,
    WatcherEventReceived,
)
from lifecycle_manager.events.endpoint import UnknownRuntime, VerifiedEvent
from lifecycle_manager.events.publishing import EventPublisher, managers_of
from lifecycle_manager.process.telemetry import ChangeLatency
from lifecycle_manager.skr.watcher import challenge_for
from lifecycle_manager_api import WatchEvent, decode_event, names
from tests.clocks import ManualClock
from tests.unit.diagnostics.recorded import Exported, tracer_with
from tests.world import KCP, World, open_world

SIGNALS = (ObjectChanged, ResyncReported, UnclaimedChange, WatcherEventReceived)
OBJECT = ObjectReference("example.com", "Thing", "default", "one")


@dataclass(eq=False)
class Publishing:
    """A publisher, and the signals that it has published."""

    world: World
    publisher: EventPublisher
    signals: list[Any] = field(default_factory=list)

    def take(self, kyma: str = "demo", **content: Any) -> list[Any]:
        """Take an event for a Kyma; return the signals."""
        self.signals.clear()
        event = decode_event(msgspec.json.encode(content))
        verified = VerifiedEvent(kyma, names.LIFECYCLE_MANAGER, event, datetime.now(UTC))
        self.publisher.take(kyma, verified)
        return list(self.signals)


def watched(reference: ObjectReference, operation: str = "UPDATE") -> dict[str, Any]:
    return {
        "operation": operation,
        "watched": {"Namespace": reference.namespace, "Name": reference.name},
        "watchedGvk": {"group": reference.group, "version": "v1", "kind": reference.kind},
    }


@pytest_asyncio.fixture
async def publishing() -> AsyncIterator[Publishing]:
    async with open_world() as world:
        manager: Manager = world.manager
        made = Publishing(world, EventPublisher(manager, ChangeLatency(CollectorRegistry(), ManualClock())))
        for signal in SIGNALS:
            manager.on(signal, made.signals.append)
        await world.register()
        await world.sync_caches()
        yield made


async def test_change_is_published_with_its_object_its_version_and_its_trace(publishing: Publishing) -> None:
    trace = {"id": "e", "traceparent": "t", "observedAt": "2026-11-01T12:00:00Z"}
    signals = publishing.take(**watched(OBJECT), uid="u", resourceVersion="7", **trace)
    assert signals[:2] == [
        WatcherEventReceived("demo", is_canary=False, at=0.0),
        ObjectChanged("demo", OBJECT, "UPDATE", "u", "7", Trace("e", "t", "2026-11-01T12:00:00Z")),
    ]


async def test_verification_of_a_change_continues_its_trace_and_a_resync_has_none(publishing: Publishing) -> None:
    exported = Exported()
    publishing.world.manager.tracer = tracer_with(exported, ratio=1.0)
    trace = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-00"
    publishing.take(**watched(OBJECT), traceparent=trace)
    publishing.take(operation="RESYNC", traceparent=trace)
    publishing.take(operation="HEARTBEAT", traceparent=trace)

    (span,) = exported.spans
    assert span.parent is not None
    assert (span.name, f"{span.parent.span_id:016x}") == ("verification", trace[36:52])
    assert span.attributes is not None
    assert span.attributes["kyma"] == "demo"


async def test_change_that_no_controller_claims_is_published_as_such(publishing: Publishing) -> None:
    assert publishing.take(**watched(OBJECT))[-1] == UnclaimedChange("demo")


async def test_change_that_a_controller_claims_is_not_unclaimed(publishing: Publishing) -> None:
    claiming: Controller[str, None] = publishing.world.manager.controller("claiming", exists=lambda _: True)
    claiming.receives(ObjectChanged, to=lambda change: (change.kyma,))
    assert UnclaimedChange("demo") not in publishing.take(**watched(OBJECT))


async def test_change_of_another_kyma_cr_in_the_cluster_is_not_unclaimed(publishing: Publishing) -> None:
    other = ObjectReference(names.GROUP, "Kyma", "default", "other")
    assert UnclaimedChange("demo") not in publishing.take(**watched(other))


@pytest.mark.parametrize(
    ("content", "canary"),
    [
        ({"operation": "HEARTBEAT"}, False),
        ({"operation": "HEARTBEAT", "watched": {"Name": "canary"}}, True),
        (watched(ObjectReference("", "ServiceAccount", names.SKR_NAMESPACE, "skr-webhook")), True),
    ],
)
async def test_heartbeats_and_canaries_only_prove_the_watcher(
    publishing: Publishing, content: dict[str, Any], *, canary: bool
) -> None:
    challenge = challenge_for("demo", publishing.world.clock.monotonic())
    assert publishing.take(**content, challenge=challenge) == [WatcherEventReceived("demo", canary, at=0.0)]


@pytest.mark.parametrize(("kyma", "seconds"), [("other", 0.0), ("demo", 61.0), ("demo", -5.0), ("", 0.0)])
async def test_canary_that_nobody_sent_is_not_answered(publishing: Publishing, kyma: str, seconds: float) -> None:
    now = publishing.world.clock.monotonic()
    challenge = challenge_for(kyma, now - seconds) if kyma else "0" * 64
    heartbeat: dict[str, Any] = {"operation": "HEARTBEAT", "watched": {"Name": "canary"}, "challenge": challenge}
    assert publishing.take(**heartbeat) == [WatcherEventReceived("demo", is_canary=False, at=0.0)]


async def test_runtime_has_a_share_of_the_traces_and_histograms_of_the_fleet(publishing: Publishing) -> None:
    sampled, observed = f"00-{'a' * 32}-{'b' * 16}-01", "2026-11-01T12:00:00Z"
    for _ in range(500):
        _, change = publishing.take(**watched(OBJECT), traceparent=sampled, observedAt=observed)[:2]
    assert change.trace == Trace("", f"{sampled[:-3]}-00", "")
    publishing.world.clock.advance(1)
    _, change = publishing.take(**watched(OBJECT), traceparent=sampled, observedAt=observed)[:2]
    assert change.trace == Trace("", sampled, observed)


async def test_resync_is_published(publishing: Publishing) -> None:
    assert publishing.take(operation="RESYNC")[-1] == ResyncReported("demo")


async def test_event_for_a_kyma_that_was_deleted_publishes_nothing(publishing: Publishing) -> None:
    assert publishing.take("deleted", **watched(OBJECT)) == []


async def test_kymas_are_those_of_the_runtime_in_the_certificate(publishing: Publishing) -> None:
    verified = VerifiedEvent("demo", names.LIFECYCLE_MANAGER, WatchEvent(), datetime.now(UTC))
    assert [kyma.metadata.name for kyma in publishing.publisher.kymas_of(verified)] == ["demo"]
    stranger = VerifiedEvent("stranger", names.LIFECYCLE_MANAGER, WatchEvent(), datetime.now(UTC))
    with pytest.raises(UnknownRuntime):
        publishing.publisher.kymas_of(stranger)


async def test_revocation_is_that_of_the_kymas_of_the_runtime(publishing: Publishing) -> None:
    assert publishing.publisher.revoked_before("demo") is None
    annotation = {"metadata": {"annotations": {names.REVOKED_BEFORE: "2026-11-01T12:00:00Z"}}}
    await publishing.world.kcp.merge_patch(KYMAS, "demo", annotation, KCP)
    await publishing.world.sync_caches()
    assert publishing.publisher.revoked_before("demo") == datetime(2026, 11, 1, 12, tzinfo=UTC)
    assert publishing.publisher.revoked_before("stranger") is None


async def test_every_manager_that_a_watcher_cr_names_has_a_path(world: World) -> None:
    informer = world.manager.informer(WATCHERS)
    spec = {
        "field": "spec",
        "gateway": {"selector": {}},
        "resourceToWatch": {"group": "", "version": "v1", "resource": "configmaps"},
        "serviceInfo": {"name": "a", "namespace": "b", "port": 1},
    }
    for name, manager in (("one", "painter"), ("two", "")):
        document = {"metadata": {"name": name}, "spec": spec | {"manager": manager}}
        await world.kcp.create(WATCHERS, document, KCP, field_manager="test")
    await world.sync_caches()
    assert managers_of(informer.list()) == {"lifecycle-manager", "painter"}
