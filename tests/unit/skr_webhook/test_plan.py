"""What can never happen to the Watcher of an SKR, whatever was remembered, recorded and found out before."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, assert_never

from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec import structs

from kube_runtime import ApplyResult, Forbidden, InventoryEntry, KubernetesObject, StepFailure
from kyma_certs import KeyPair
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
from lifecycle_manager.skr import AccessSecretMissing
from lifecycle_manager.skr_webhook.canary import EventPath
from lifecycle_manager.skr_webhook.plan import (
    ApplyWatcher,
    DeleteWatcher,
    EnsureCertificate,
    FindDesired,
    SendCanary,
    WatcherDone,
    WatcherStep,
    is_managed,
    is_recorded,
    is_silent,
    plan,
)
from lifecycle_manager.skr_webhook.settings import WatcherTimes
from lifecycle_manager.skr_webhook.snapshot import Desired, ModuleCrRules, WatcherSnapshot
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
PAIR = KeyPair(b"certificate", b"key")
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


def outcome(seen: WatcherSnapshot, step: WatcherStep, *, unknown: tuple[str, ...] = ()) -> WatcherSnapshot:
    match step:
        case EnsureCertificate():
            return replace(seen, certificate=PAIR)
        case FindDesired(_, with_webhook):
            objects: tuple[KubernetesObject, ...] = (WEBHOOK,) if with_webhook else ()
            return replace(seen, desired=Desired(objects, RECORDS, ModuleCrRules((), unknown), with_webhook))
        case ApplyWatcher():
            drifted = seen.desired is not None and is_recorded(seen.kyma, seen.desired)
            timers = seen.timers.repaired(TIMES, now=seen.now, again=TIMES.interval, drifted=drifted)
            return replace(seen, applied=ApplyResult((), ()), timers=timers)
        case SendCanary(path, write):
            timers = seen.timers.with_path(path.sent(seen.now, write=write))
            return replace(seen, canary_sent=True, timers=timers)
        case DeleteWatcher():
            return replace(seen, remaining=())
        case _:
            assert_never(step)


def followed(seen: WatcherSnapshot) -> tuple[list[WatcherStep], WatcherDone]:
    """Return the steps and the end of a reconcile in which everything succeeds."""
    steps: list[WatcherStep] = []
    while not isinstance(step := plan(seen), WatcherDone):
        steps.append(step)
        seen = outcome(seen, step)
        assert len(steps) < 10, steps
    return steps, step


def steps_of(seen: WatcherSnapshot) -> list[WatcherStep]:
    return followed(seen)[0]


def end_of(seen: WatcherSnapshot) -> WatcherDone:
    return followed(seen)[1]


def reported(end: WatcherStep | WatcherDone) -> ConditionContent:
    assert isinstance(end, WatcherDone)
    assert end.condition is not None
    return end.condition


def after_event(seen: WatcherSnapshot, *, is_canary: bool) -> WatcherSnapshot:
    event = WatcherEventReceived("demo", is_canary=is_canary, at=seen.now)
    return replace(seen, timers=seen.timers.received(TIMES, [event]))


def failing(seen: WatcherSnapshot, error: Exception) -> WatcherDone:
    """Return the end of a reconcile whose next step fails."""
    step = plan(seen)
    end = plan(replace(seen, failures=(StepFailure(step, error),)))
    assert isinstance(end, WatcherDone)
    return end


@given(snapshots())
def test_every_reconcile_ends_and_no_step_is_repeated(seen: WatcherSnapshot) -> None:
    kinds = [type(step) for step in steps_of(seen)]
    assert len(kinds) == len(set(kinds))


@given(snapshots())
def test_webhook_is_never_installed_for_a_watcher_that_never_sent_an_event(seen: WatcherSnapshot) -> None:
    assume(not seen.timers.has_received)
    assume(
        seen.kyma.status.conditions[-1].reason
        not in {WATCHER_READY, CERTIFICATE_OVERDUE, WATCHER_SILENT, EVENT_PATH_BROKEN}
    )
    for step in steps_of(seen):
        assert not (isinstance(step, ApplyWatcher) and step.objects)
        assert not isinstance(step, SendCanary)


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
    assert not any(isinstance(step, ApplyWatcher) for step in steps_of(recorded))


@given(snapshots(), paths())
def test_only_the_path_is_tested_where_all_was_in_order_and_nothing_happened(
    seen: WatcherSnapshot, path: EventPath
) -> None:
    timers = structs.replace(seen.timers, in_order=True, path=path)
    quiet = replace(seen, kyma=of_reason(WATCHER_READY, recorded=True), timers=timers, is_triggered=False)
    steps, end = followed(quiet)
    if EnsureCertificate() not in steps:
        computed = end_of(replace(quiet, is_triggered=True))
        assert {type(step) for step in steps} <= {SendCanary}
        assert reported(computed).reason == (reported(end).reason if end.condition is not None else WATCHER_READY)
        assert (end.timers, end.requeue_after) == (computed.timers, computed.requeue_after)


@given(snapshots(), st.floats(1, 300), st.booleans())
def test_watcher_in_order_is_reconciled_when_its_objects_are_due(
    seen: WatcherSnapshot, due_in: float, is_triggered: bool
) -> None:
    path = EventPath.untested(TIMES.canary, now=seen.now + 1000, share=0)
    timers = structs.replace(seen.timers, path=path, last_event_at=seen.now, repair_at=seen.now + due_in, in_order=True)
    ready = replace(seen, kyma=of_reason(WATCHER_READY, recorded=True), timers=timers, is_triggered=is_triggered)
    again = end_of(replace(ready, times=replace(TIMES, silence=1000.0))).requeue_after
    assert again is not None
    assert again <= due_in + 1e-6


@given(snapshots(), st.floats(1, 300))
def test_watcher_that_is_starting_is_reconciled_when_its_objects_are_due(seen: WatcherSnapshot, due_in: float) -> None:
    timers = structs.replace(seen.timers, since=seen.now, last_event_at=None, repair_at=seen.now + due_in)
    starting = replace(seen, kyma=of_reason(WATCHER_STARTING, recorded=True), timers=timers)
    again = end_of(replace(starting, times=replace(TIMES, silence=1000.0))).requeue_after
    assert again is not None
    assert again <= due_in + 1e-6


@given(snapshots(), st.sampled_from(REASONS))
def test_what_is_not_ready_is_never_in_order(seen: WatcherSnapshot, reason: str) -> None:
    end = end_of(replace(seen, kyma=of_reason(reason, recorded=True)))
    if reported(end).reason not in WORKING:
        assert not end.timers.in_order


@given(snapshots())
def test_watcher_that_falls_silent_has_its_objects_compared_at_once(seen: WatcherSnapshot) -> None:
    silent = replace(
        seen,
        kyma=of_reason(WATCHER_READY, recorded=True),
        timers=structs.replace(seen.timers, repair_at=seen.now + 1000, last_event_at=seen.now - TIMES.silence - 1),
    )
    steps = steps_of(silent)
    assert any(isinstance(step, ApplyWatcher) for step in steps)
    assert reported(end_of(silent)).reason == WATCHER_SILENT


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
def test_watcher_of_a_deleted_kyma_is_removed_and_nothing_else(seen: WatcherSnapshot) -> None:
    assert [type(step) for step in steps_of(seen)] == [DeleteWatcher]
    assert reported(end_of(seen)).reason == "Removed"


@given(snapshots(deleting=True))
def test_removal_waits_for_objects_that_are_still_there(seen: WatcherSnapshot) -> None:
    end = plan(replace(seen, remaining=(LEFT,)))
    assert reported(end).reason == "Removing"
    assert isinstance(end, WatcherDone)
    assert end.requeue_after is not None


@given(snapshots())
def test_without_a_certificate_nothing_is_applied(seen: WatcherSnapshot) -> None:
    end = failing(seen, CertificatePending("not issued"))
    assert reported(end) == ("False", "CertificatePending", "not issued")
    assert (end.requeue_after, end.error) == (2.0, None)


@given(snapshots(), snapshots(deleting=True))
def test_failed_step_is_reported_and_retried(seen: WatcherSnapshot, removed: WatcherSnapshot) -> None:
    refused = Forbidden(403, "Forbidden", "no")
    for each in (seen, removed):
        end = failing(each, refused)
        assert (reported(end).status, end.error) == ("False", refused)


@given(snapshots(deleting=True))
def test_removal_ends_where_the_access_to_the_cluster_is_gone(seen: WatcherSnapshot) -> None:
    end = failing(seen, AccessSecretMissing("deleted"))
    assert (end.condition, end.error) == (None, None)


@given(snapshots())
def test_refused_canary_says_nothing_about_the_path(seen: WatcherSnapshot) -> None:
    desired = Desired((), RECORDS, ModuleCrRules(), with_webhook=True)
    timers = structs.replace(seen.timers, last_event_at=seen.now, repair_at=seen.now + 1)
    ready = replace(
        seen, kyma=of_reason(WATCHER_READY, recorded=True), timers=timers, certificate=PAIR, desired=desired
    )
    if isinstance(plan(ready), SendCanary):
        path = failing(ready, Forbidden(403, "Forbidden", "no")).timers.path
        assert path is not None
        assert path.unanswered_since is None


def test_certificate_that_was_not_renewed_is_reported_while_the_watcher_works() -> None:
    path = EventPath.untested(TIMES.canary, now=10, share=1)
    timers = Timers(since=0, repair_at=1000, share=0.5, last_event_at=10, path=path)
    desired = Desired((), RECORDS, ModuleCrRules((), ()), with_webhook=True)
    for reason in (WATCHER_READY, CERTIFICATE_OVERDUE):
        seen = WatcherSnapshot(
            kyma=of_reason(reason, recorded=True),
            now=10,
            times=TIMES,
            timers=timers,
            certificate=PAIR,
            overdue_until=datetime(2026, 12, 1, tzinfo=UTC),
            desired=desired,
        )
        end = plan(seen)
        assert reported(end)[:2] == ("True", CERTIFICATE_OVERDUE)
        assert "ends at 2026-12-01 00:00 UTC" in reported(end).message
        assert reported(plan(replace(seen, overdue_until=None))).reason == WATCHER_READY


def test_kinds_that_the_cluster_does_not_serve_yet_are_named_and_checked_again_soon() -> None:
    timers = Timers(
        since=0, repair_at=1000, share=0.5, last_event_at=10, path=EventPath.untested(TIMES.canary, now=10, share=1)
    )
    desired = Desired((), RECORDS, ModuleCrRules((), ("Thing (example.com/v1)",)), with_webhook=True)
    seen = WatcherSnapshot(
        kyma=of_reason(WATCHER_READY, recorded=True),
        now=10,
        times=TIMES,
        timers=timers,
        certificate=PAIR,
        desired=desired,
    )
    end = plan(seen)
    assert "Thing (example.com/v1)" in reported(end).message
    assert isinstance(end, WatcherDone)
    assert end.requeue_after == 2.0


def test_watcher_of_a_kyma_that_is_skipped_or_still_has_modules_is_not_managed() -> None:
    assert is_managed(of_reason())
    assert not is_managed(of_reason(skipped=True))
    assert is_managed(of_reason(deleting=True, skipped=True))
    assert not is_managed(of_reason(deleting=True, removed=False))
