"""What can never happen to the Watcher of an SKR, whatever was remembered, recorded and found out before."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec import structs

from kube_runtime import Forbidden, InventoryEntry, KubernetesObject, ObjectKey, Request
from lifecycle_manager.contract.conditions import (
    CERTIFICATE_OVERDUE,
    EVENT_PATH_BROKEN,
    EVENT_PATH_FAULTS,
    NO_WATCHER_EVENTS,
    WATCHER_READY,
    WATCHER_SILENT,
    ConditionContent,
)
from lifecycle_manager.contract.signals import WatcherEventReceived
from lifecycle_manager.options.watcher import WatcherTimes
from lifecycle_manager.skr.access import AccessSecretMissing
from lifecycle_manager.skr_webhook import rules
from lifecycle_manager.skr_webhook.apply import SkrWatcher
from lifecycle_manager.skr_webhook.canary import EventPath
from lifecycle_manager.skr_webhook.controller import maintain
from lifecycle_manager.skr_webhook.rules import WatcherDone, is_managed, is_recorded, is_silent
from lifecycle_manager.skr_webhook.snapshot import Desired, ModuleCrRules, WatcherSnapshot, WatcherState
from lifecycle_manager.skr_webhook.status import WATCHER_STARTING
from lifecycle_manager.skr_webhook.timers import Timers
from lifecycle_manager.watcher_certificates.issued_certificates import CertificatePending
from lifecycle_manager_api import Kyma, names
from tests import builders
from tests.builders import condition

TIMES = WatcherTimes()
RECORDS = {"watcher": "objects.watchers", "trust": "cas"}
WORKING = [WATCHER_READY, CERTIFICATE_OVERDUE]
REASONS = ["", WATCHER_STARTING, *WORKING, *EVENT_PATH_FAULTS, "ClusterUnreachable", "Removing"]
DELETED = "2026-11-01T12:00:00Z"
WEBHOOK = KubernetesObject(
    "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "", "skr-webhook", {}, 0
)
LEFT = InventoryEntry("apps", "v1", "Deployment", "kyma-system", "skr-webhook")

moments = st.floats(min_value=0, max_value=2000)


def of_reason(
    reason: str = "", *, recorded: bool = False, deleting: bool = False, removed: bool = True, skipped: bool = False
) -> Kyma:
    """Return a Kyma with the condition of its Watcher, none where the reason is empty."""
    conditions = [
        condition("SKRReachable", "Reachable", status="True"),
        condition("Modules", "ModulesRemoved" if removed else "Ready", status="True"),
    ]
    if reason:
        conditions.append(condition("SKRWebhook", reason, status="True" if reason in WORKING else "False"))
    metadata: dict[str, Any] = {"deletionTimestamp": DELETED} if deleting else {}
    return builders.kyma(
        status={"conditions": conditions},
        records=RECORDS if recorded else {},
        labels={names.SKIP_RECONCILIATION: "true"} if skipped else {},
        **metadata,
    )


@st.composite
def paths(draw: st.DrawFn) -> EventPath:
    return EventPath(TIMES.canary, draw(moments), draw(moments), draw(moments), draw(st.none() | moments))


@st.composite
def snapshots(draw: st.DrawFn, *, deleting: bool = False) -> WatcherSnapshot:
    """Any state that a reconcile may find."""
    timers = Timers(
        since=draw(moments),
        repair_at=draw(moments),
        share=draw(st.floats(0, 1)),
        last_event_at=draw(st.none() | moments),
        path=draw(st.none() | paths()),
    )
    reason = draw(st.sampled_from(REASONS))
    return WatcherSnapshot(
        kyma=of_reason(reason, recorded=draw(st.booleans()), deleting=deleting),
        now=draw(moments.map(lambda moment: moment + 2000)),
        times=TIMES,
        timers=timers,
    )


@dataclass
class Skr:
    """An SKR in which everything succeeds; `steps` are what was done there, with the objects that were applied."""

    unknown: tuple[str, ...] = ()
    overdue_until: datetime | None = None
    no_certificate: Exception | None = None
    steps: list[tuple[str, tuple[KubernetesObject, ...]]] = field(default_factory=list)

    async def desired(self, _kyma: Kyma, *, with_webhook: bool) -> Desired:
        self.steps.append(("find", ()))
        if self.no_certificate is not None:
            raise self.no_certificate
        objects = (WEBHOOK,) if with_webhook else ()
        return Desired(objects, RECORDS, ModuleCrRules((), self.unknown), with_webhook, self.overdue_until)

    async def apply(self, seen: WatcherSnapshot, desired: Desired, _how: rules.WebhookComparison) -> WatcherSnapshot:
        self.steps.append(("apply", desired.objects))
        drifted = is_recorded(seen.kyma, desired)
        timers = seen.timers.repaired(TIMES, now=seen.now, again=TIMES.interval, drifted=drifted)
        return replace(seen, timers=timers)

    async def send_canary(self, seen: WatcherSnapshot, path: EventPath) -> WatcherSnapshot:
        self.steps.append(("canary", ()))
        sent = path.sending(seen.now).sent(seen.now, write=path.is_write_due(seen.now))
        return replace(seen, timers=seen.timers.with_path(sent))

    def later(self, seen: WatcherSnapshot) -> WatcherSnapshot:
        return seen

    @property
    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.steps]


def followed(seen: WatcherSnapshot, skr: Skr | None = None) -> tuple[Skr, WatcherDone]:
    """Return what a reconcile does in an SKR in which everything succeeds, and its end."""
    skr = skr or Skr()
    return skr, asyncio.run(maintain(cast("Any", skr), seen))


def end_of(seen: WatcherSnapshot) -> WatcherDone:
    return followed(seen)[1]


def reported(end: WatcherDone) -> ConditionContent:
    assert end.condition is not None
    return end.condition


def after_event(seen: WatcherSnapshot, *, is_canary: bool) -> WatcherSnapshot:
    event = WatcherEventReceived("demo", is_canary=is_canary, at=seen.now)
    return replace(seen, timers=seen.timers.received(TIMES, [event]))


@given(snapshots())
def test_every_reconcile_ends_and_no_step_is_repeated(seen: WatcherSnapshot) -> None:
    kinds = followed(seen)[0].kinds
    assert len(kinds) == len(set(kinds))


@given(snapshots())
def test_webhook_is_never_installed_for_a_watcher_that_never_sent_an_event(seen: WatcherSnapshot) -> None:
    assume(not seen.timers.has_received)
    assume(
        seen.kyma.status.conditions[-1].reason
        not in {WATCHER_READY, CERTIFICATE_OVERDUE, WATCHER_SILENT, EVENT_PATH_BROKEN}
    )
    for kind, objects in followed(seen)[0].steps:
        assert not objects
        assert kind != "canary"


@given(snapshots())
def test_watcher_is_ready_only_while_events_arrive_and_canaries_are_answered(
    seen: WatcherSnapshot,
) -> None:
    end = end_of(seen)
    if reported(end).status == "True":
        assert not is_silent(seen)
        assert end.timers.path is not None
        assert not end.timers.path.broken_for(seen.now)


@given(snapshots())
def test_every_end_is_followed_by_a_reconcile_before_a_fault_goes_unnoticed(seen: WatcherSnapshot) -> None:
    end = end_of(seen)
    assert end.requeue_after is not None
    assert 0 <= end.requeue_after <= TIMES.silence + 0.2


@given(snapshots())
def test_faults_have_the_objects_compared_again_soon(seen: WatcherSnapshot) -> None:
    end = end_of(seen)
    if reported(end).reason in EVENT_PATH_FAULTS:
        assert end.timers.repair_at <= seen.now + 30


@given(snapshots())
def test_objects_that_are_recorded_and_not_due_are_left_alone(seen: WatcherSnapshot) -> None:
    recorded = replace(
        seen,
        kyma=of_reason(WATCHER_READY, recorded=True),
        timers=structs.replace(seen.timers, repair_at=seen.now + 1, last_event_at=seen.now),
    )
    assert "apply" not in followed(recorded)[0].kinds


@given(snapshots(), paths())
def test_only_the_path_is_tested_where_all_was_in_order_and_nothing_happened(
    seen: WatcherSnapshot, path: EventPath
) -> None:
    timers = structs.replace(seen.timers, in_order=True, path=path)
    quiet = replace(seen, kyma=of_reason(WATCHER_READY, recorded=True), timers=timers, is_triggered=False)
    skr, end = followed(quiet)
    if "find" not in skr.kinds:
        computed = end_of(replace(quiet, is_triggered=True))
        assert {*skr.kinds} <= {"canary"}
        assert reported(computed).reason == (reported(end).reason if end.condition is not None else WATCHER_READY)
        assert (end.timers, end.requeue_after) == (computed.timers, computed.requeue_after)


@given(snapshots(), st.floats(1, 300), st.booleans())
def test_watcher_in_order_is_reconciled_when_its_objects_are_due(
    seen: WatcherSnapshot, due_in: float, is_triggered: bool
) -> None:
    path = EventPath.untested(TIMES.canary, now=seen.now + 1000, share=0)
    timers = structs.replace(seen.timers, path=path, last_event_at=seen.now, repair_at=seen.now + due_in, in_order=True)
    ready = replace(seen, kyma=of_reason(WATCHER_READY, recorded=True), timers=timers, is_triggered=is_triggered)
    again = end_of(replace(ready, times=TIMES.model_copy(update={"silence": 1000.0}))).requeue_after
    assert again is not None
    assert again <= due_in + 1e-6


@given(snapshots(), st.floats(1, 300))
def test_watcher_that_is_starting_is_reconciled_when_its_objects_are_due(seen: WatcherSnapshot, due_in: float) -> None:
    timers = structs.replace(seen.timers, since=seen.now, last_event_at=None, repair_at=seen.now + due_in)
    starting = replace(seen, kyma=of_reason(WATCHER_STARTING, recorded=True), timers=timers)
    again = end_of(replace(starting, times=TIMES.model_copy(update={"silence": 1000.0}))).requeue_after
    assert again is not None
    assert again <= due_in + 1e-6


@given(snapshots(), st.sampled_from(REASONS))
def test_what_is_not_ready_is_never_in_order(seen: WatcherSnapshot, reason: str) -> None:
    end = end_of(replace(seen, kyma=of_reason(reason, recorded=True)))
    if reported(end).reason not in WORKING:
        assert not end.timers.in_order


@given(snapshots())
def test_watcher_that_falls_silent_has_its_objects_compared_at_once(seen: WatcherSnapshot) -> None:
    long_ago = seen.now - TIMES.silence - 1
    timers = structs.replace(seen.timers, since=long_ago, last_event_at=long_ago, repair_at=seen.now + 1000)
    skr, end = followed(replace(seen, kyma=of_reason(WATCHER_READY, recorded=True), timers=timers))
    assert "apply" in skr.kinds
    assert reported(end).reason == WATCHER_SILENT


@given(snapshots())
def test_event_from_before_another_replica_had_the_watcher_is_no_silence(seen: WatcherSnapshot) -> None:
    managed_again = structs.replace(seen.timers, since=seen.now, last_event_at=None)
    ready = replace(seen, kyma=of_reason(WATCHER_READY, recorded=True), timers=managed_again)
    old = WatcherEventReceived("demo", is_canary=False, at=seen.now - TIMES.silence - 1)
    assert not is_silent(replace(ready, timers=ready.timers.received(TIMES, [old])))


@given(snapshots(), st.booleans())
def test_event_ends_silence_whatever_was_found_before(seen: WatcherSnapshot, canary: bool) -> None:
    after = after_event(seen, is_canary=canary)
    assert not is_silent(after)
    assert reported(end_of(after)).reason not in {WATCHER_SILENT, NO_WATCHER_EVENTS, WATCHER_STARTING}


@given(snapshots())
def test_answer_to_a_canary_ends_the_fault_of_the_path(seen: WatcherSnapshot) -> None:
    assume(seen.timers.path is None or seen.timers.path.answered_at is None)
    assert reported(end_of(after_event(seen, is_canary=True))).reason == WATCHER_READY


@given(snapshots())
def test_event_that_enqueues_nothing_changes_nothing_in_the_report(seen: WatcherSnapshot) -> None:
    event = WatcherEventReceived("demo", is_canary=False, at=seen.now)
    if not seen.timers.is_condition_changed_by(TIMES, event):
        before, after = (reported(end_of(each)) for each in (seen, after_event(seen, is_canary=False)))
        assert (after.status, after.reason) == (before.status, before.reason)


@given(snapshots(), st.lists(st.tuples(st.booleans(), moments), max_size=4))
def test_events_that_a_failed_reconcile_gets_again_count_once(
    seen: WatcherSnapshot, arrived: list[tuple[bool, float]]
) -> None:
    events = [WatcherEventReceived("demo", is_canary=canary, at=at) for canary, at in arrived]
    once = seen.timers.received(TIMES, events)
    assert once.received(TIMES, events) == once


@given(snapshots(deleting=True))
def test_removal_waits_for_objects_that_are_still_there(seen: WatcherSnapshot) -> None:
    assert reported(rules.removed(seen, ())).reason == "Removed"
    end = rules.removed(seen, (LEFT,))
    assert reported(end).reason == "Removing"
    assert end.requeue_after is not None


@given(snapshots())
def test_without_a_certificate_nothing_is_applied(seen: WatcherSnapshot) -> None:
    skr = Skr(no_certificate=CertificatePending("not issued"))
    with pytest.raises(CertificatePending):
        followed(seen, skr)
    assert skr.kinds == ["find"]
    end = rules.failure(seen, CertificatePending("not issued"))
    assert reported(end) == ("False", "CertificatePending", "not issued")
    assert (end.requeue_after, end.error) == (2.0, None)


@given(snapshots(), snapshots(deleting=True))
def test_failed_request_is_reported_and_retried(seen: WatcherSnapshot, removed: WatcherSnapshot) -> None:
    refused = Forbidden(403, "Forbidden", "no")
    for each in (seen, removed):
        end = rules.failure(each, refused)
        assert (reported(end).status, end.error) == ("False", refused)


@given(snapshots(deleting=True))
def test_removal_ends_where_the_access_to_the_cluster_is_gone(seen: WatcherSnapshot) -> None:
    end = rules.failure(seen, AccessSecretMissing("deleted"))
    assert (end.condition, end.error) == (None, None)


async def test_refused_canary_says_nothing_about_the_path() -> None:
    class Refusing:
        async def apply_undecoded(self, *_: Any, **__: Any) -> None:
            raise Forbidden(403, "Forbidden", "no")

    class Connections:
        @asynccontextmanager
        async def to(self, _kyma: str) -> AsyncIterator[Refusing]:
            yield Refusing()

    path = EventPath.untested(TIMES.canary, now=10, share=0)
    timers = Timers(since=0, repair_at=1000, share=0.5, last_event_at=10, path=path)
    seen = WatcherSnapshot(kyma=of_reason(WATCHER_READY, recorded=True), now=10, times=TIMES, timers=timers)
    async with Request(ObjectKey("kcp-system", "demo"), WatcherState()) as request:
        watcher = SkrWatcher(cast("Any", SimpleNamespace(connections=Connections())), request)
        with pytest.raises(Forbidden):
            await watcher.send_canary(seen, path)
    assert request.state.timers is not None
    assert request.state.timers.path is not None
    assert request.state.timers.path.unanswered_since is None


def test_certificate_that_was_not_renewed_is_reported_while_the_watcher_works() -> None:
    path = EventPath.untested(TIMES.canary, now=10, share=1)
    timers = Timers(since=0, repair_at=1000, share=0.5, last_event_at=10, path=path)
    for reason in (WATCHER_READY, CERTIFICATE_OVERDUE):
        seen = WatcherSnapshot(kyma=of_reason(reason, recorded=True), now=10, times=TIMES, timers=timers)
        _, end = followed(seen, Skr(overdue_until=datetime(2026, 12, 1, tzinfo=UTC)))
        assert reported(end)[:2] == ("True", CERTIFICATE_OVERDUE)
        assert "ends at 2026-12-01 00:00 UTC" in reported(end).message
        assert reported(end_of(seen)).reason == WATCHER_READY


def test_kinds_that_the_cluster_does_not_serve_yet_are_named_and_checked_again_soon() -> None:
    path = EventPath.untested(TIMES.canary, now=10, share=1)
    timers = Timers(since=0, repair_at=1000, share=0.5, last_event_at=10, path=path)
    seen = WatcherSnapshot(kyma=of_reason(WATCHER_READY, recorded=True), now=10, times=TIMES, timers=timers)
    _, end = followed(seen, Skr(unknown=("Thing (example.com/v1)",)))
    assert "Thing (example.com/v1)" in reported(end).message
    assert end.requeue_after == 2.0


def test_watcher_of_a_kyma_that_is_skipped_or_still_has_modules_is_not_managed() -> None:
    assert is_managed(of_reason())
    assert not is_managed(of_reason(skipped=True))
    assert is_managed(of_reason(deleting=True, skipped=True))
    assert not is_managed(of_reason(deleting=True, removed=False))
