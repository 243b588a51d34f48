"""What can never happen to the Watcher of an SKR, whatever was remembered, recorded and found out before."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from kube_runtime import InventoryEntry
from kyma_certs import KeyPair
from lifecycle_manager.contract.conditions import (
    CERTIFICATE_OVERDUE,
    EVENT_PATH_BROKEN,
    EVENT_PATH_FAULTS,
    NO_WATCHER_EVENTS,
    WATCHER_SILENT,
)
from lifecycle_manager.skr_webhook.canary import CanaryTimes, EventPath
from lifecycle_manager.skr_webhook.plan import (
    ApplyObjects,
    Done,
    EnsureCertificate,
    FindDesired,
    RemoveObjects,
    SendCanary,
    Step,
    is_managed,
    is_silent,
    plan,
)
from lifecycle_manager.skr_webhook.snapshot import Desired, ModuleRules, NoCertificate, WatcherSnapshot
from lifecycle_manager.skr_webhook.status import WATCHER_READY, WATCHER_STARTING
from lifecycle_manager.skr_webhook.timers import Timers, WatcherTimes
from lifecycle_manager_api import Kyma, names
from tests import builders

TIMES = WatcherTimes(interval=300, silence=55, canary=CanaryTimes())
RECORDS = {"watcher": "objects.watchers", "trust": "cas"}
WORKING = [WATCHER_READY, CERTIFICATE_OVERDUE]
REASONS = ["", WATCHER_STARTING, *WORKING, *EVENT_PATH_FAULTS, "ClusterUnreachable", "Removing"]
PAIR = KeyPair(b"certificate", b"key")
DELETED = "2026-11-01T12:00:00Z"
LEFT = InventoryEntry("apps", "v1", "Deployment", "kyma-system", "skr-webhook")

moments = st.floats(min_value=0, max_value=2000)


def kyma(
    reason: str = "", *, recorded: bool = False, deleting: bool = False, removed: bool = True, skipped: bool = False
) -> Kyma:
    """Return a Kyma with the condition of its Watcher, none where the reason is empty."""
    conditions: list[dict[str, Any]] = [
        {"type": "SKRReachable", "status": "True", "reason": "Reachable", "message": ""},
        {"type": "Modules", "status": "True", "reason": "ModulesRemoved" if removed else "Ready", "message": ""},
    ]
    if reason:
        status = "True" if reason in WORKING else "False"
        conditions.append({"type": "SKRWebhook", "status": status, "reason": reason, "message": ""})
    metadata: dict[str, Any] = {"deletionTimestamp": DELETED} if deleting else {}
    return builders.kyma(
        status={"conditions": conditions},
        records=RECORDS if recorded else {},
        labels={names.SKIP_RECONCILIATION: "true"} if skipped else {},
        **metadata,
    )


@st.composite
def paths(draw: st.DrawFn) -> EventPath:
    return EventPath(TIMES.canary, draw(moments), draw(moments), draw(st.none() | moments))


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
        kyma=kyma(reason, recorded=draw(st.booleans()), deleting=deleting),
        now=draw(moments.map(lambda moment: moment + 2000)),
        times=TIMES,
        timers=timers,
    )


def outcome(seen: WatcherSnapshot, step: Step, *, unknown: tuple[str, ...] = ()) -> WatcherSnapshot:
    """Return the snapshot after a step that succeeds."""
    match step:
        case EnsureCertificate():
            return replace(seen, certificate=PAIR)
        case FindDesired(with_webhook):
            return replace(seen, desired=Desired((), RECORDS, ModuleRules((), unknown), with_webhook))
        case ApplyObjects(_, recorded, _):
            timers = seen.timers.repaired(TIMES, now=seen.now, drifted=recorded)
            return replace(seen, applied=True, timers=timers)
        case SendCanary(path, write):
            timers = replace(seen.timers, path=path.sent(seen.now, write=write))
            return replace(seen, canary_sent=True, timers=timers)
        case RemoveObjects():
            return replace(seen, remaining=())
        case Done():
            raise AssertionError("a reconcile goes on after its end")


def steps_of(seen: WatcherSnapshot) -> list[Step]:
    """Return the steps of a reconcile in which everything succeeds."""
    steps: list[Step] = []
    while not steps or not isinstance(steps[-1], Done):
        steps.append(plan(seen))
        if not isinstance(steps[-1], Done):
            seen = outcome(seen, steps[-1])
        assert len(steps) < 10, steps
    return steps


def end_of(seen: WatcherSnapshot) -> Done:
    end = steps_of(seen)[-1]
    assert isinstance(end, Done)
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
        assert not (isinstance(step, ApplyObjects) and step.desired.with_webhook)
        assert not isinstance(step, SendCanary)


@given(snapshots())
def test_watcher_is_ready_only_while_events_arrive_and_canaries_are_answered(
    seen: WatcherSnapshot,
) -> None:
    end = end_of(seen)
    if end.status.status == "True":
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
    if end.status.reason in EVENT_PATH_FAULTS:
        assert end.timers.repair_at <= seen.now + 30


@given(snapshots())
def test_objects_that_are_recorded_and_not_due_are_left_alone(seen: WatcherSnapshot) -> None:
    recorded = replace(
        seen,
        kyma=kyma(WATCHER_READY, recorded=True),
        timers=replace(seen.timers, repair_at=seen.now + 1, last_event_at=seen.now),
    )
    assert not any(isinstance(step, ApplyObjects) for step in steps_of(recorded))


@given(snapshots())
def test_watcher_that_falls_silent_has_its_objects_compared_at_once(seen: WatcherSnapshot) -> None:
    silent = replace(
        seen,
        kyma=kyma(WATCHER_READY, recorded=True),
        timers=replace(seen.timers, repair_at=seen.now + 1000, last_event_at=seen.now - 56),
    )
    steps = steps_of(silent)
    assert any(isinstance(step, ApplyObjects) for step in steps)
    assert end_of(silent).status.reason == WATCHER_SILENT


@given(snapshots(), st.booleans())
def test_event_ends_silence_whatever_was_found_before(seen: WatcherSnapshot, canary: bool) -> None:
    timers, _ = seen.timers.event_received(TIMES, now=seen.now, canary=canary)
    received = replace(seen, timers=timers)
    assert not is_silent(received)
    assert end_of(received).status.reason not in {WATCHER_SILENT, NO_WATCHER_EVENTS, WATCHER_STARTING}


@given(snapshots())
def test_answer_to_a_canary_ends_the_fault_of_the_path(seen: WatcherSnapshot) -> None:
    timers, _ = seen.timers.event_received(TIMES, now=seen.now, canary=True)
    assert end_of(replace(seen, timers=timers)).status.reason == WATCHER_READY


@given(snapshots())
def test_event_that_enqueues_nothing_changes_nothing_in_the_report(seen: WatcherSnapshot) -> None:
    before = end_of(seen).status
    timers, changed = seen.timers.event_received(TIMES, now=seen.now, canary=False)
    if not changed:
        after = end_of(replace(seen, timers=timers)).status
        assert (after.status, after.reason) == (before.status, before.reason)


@given(snapshots(deleting=True))
def test_watcher_of_a_deleted_kyma_is_removed_and_nothing_else(seen: WatcherSnapshot) -> None:
    steps = steps_of(seen)
    assert [type(step) for step in steps] == [RemoveObjects, Done]
    assert end_of(seen).status.reason == "Removed"


@given(snapshots(deleting=True))
def test_removal_waits_for_objects_that_are_still_there(seen: WatcherSnapshot) -> None:
    end = plan(replace(seen, remaining=(LEFT,)))
    assert isinstance(end, Done)
    assert end.status.reason == "Removing"
    assert end.requeue_after is not None


@given(snapshots())
def test_without_a_certificate_nothing_is_applied(seen: WatcherSnapshot) -> None:
    assume(seen.kyma.status.conditions[-1].type == "SKRWebhook")
    end = plan(replace(seen, certificate=NoCertificate("CertificatePending", "not issued", 2.0)))
    assert isinstance(end, Done)
    assert (end.status.reason, end.requeue_after) == ("CertificatePending", 2.0)


def test_certificate_that_was_not_renewed_is_reported_while_the_watcher_works() -> None:
    path = EventPath.untested(TIMES.canary, now=10, share=1)
    timers = Timers(since=0, repair_at=1000, share=0.5, last_event_at=10, path=path)
    desired = Desired((), RECORDS, ModuleRules((), ()), with_webhook=True)
    for reason in (WATCHER_READY, CERTIFICATE_OVERDUE):
        seen = WatcherSnapshot(
            kyma=kyma(reason, recorded=True),
            now=10,
            times=TIMES,
            timers=timers,
            certificate=PAIR,
            overdue_until=datetime(2026, 12, 1, tzinfo=UTC),
            desired=desired,
        )
        end = plan(seen)
        assert isinstance(end, Done)
        assert (end.status.status, end.status.reason) == ("True", CERTIFICATE_OVERDUE)
        assert "ends at 2026-12-01 00:00 UTC" in end.status.message
        assert plan(replace(seen, overdue_until=None)).status.reason == WATCHER_READY  # type: ignore[union-attr]


def test_kinds_that_the_cluster_does_not_serve_yet_are_named_and_checked_again_soon() -> None:
    timers = Timers(
        since=0, repair_at=1000, share=0.5, last_event_at=10, path=EventPath.untested(TIMES.canary, now=10, share=1)
    )
    desired = Desired((), RECORDS, ModuleRules((), ("Thing (example.com/v1)",)), with_webhook=True)
    seen = WatcherSnapshot(
        kyma=kyma(WATCHER_READY, recorded=True), now=10, times=TIMES, timers=timers, certificate=PAIR, desired=desired
    )
    end = plan(seen)
    assert isinstance(end, Done)
    assert "Thing (example.com/v1)" in end.status.message
    assert end.requeue_after == 2.0


def test_watcher_of_a_kyma_that_is_skipped_or_still_has_modules_is_not_managed() -> None:
    assert is_managed(kyma())
    assert not is_managed(kyma(skipped=True))
    assert is_managed(kyma(deleting=True, skipped=True))
    assert not is_managed(kyma(deleting=True, removed=False))
