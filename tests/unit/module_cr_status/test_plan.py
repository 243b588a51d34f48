"""When the status of a Module CR is written, and what, without any cluster."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
from hypothesis import given as for_all
from hypothesis import strategies as st

from lifecycle_manager.contract.verdict import Verdict
from lifecycle_manager.module_cr_status.plan import (
    PROGRESS_SECONDS,
    SETTLING_SECONDS,
    ModuleCrDone,
    ReadModuleCr,
    RecordEvent,
    WriteStatus,
    plan,
)
from lifecycle_manager.module_cr_status.schema import ANYTHING, NO_STATUS, StatusSchema
from lifecycle_manager.module_cr_status.snapshot import ModuleCrSnapshot
from lifecycle_manager.module_cr_status.status import ModuleCrEvent
from lifecycle_manager_api import ModuleConfig, ResourceReference, State
from tests import builders

REFERENCE = ResourceReference(api_version="example.com/v1", kind="Thing", name="one", uid="uid", generation=3)
LATER = builders.NOW + timedelta(minutes=1)
READY = Verdict(State.READY, "Applied", "1 object is applied and ready", 3)
ERROR = Verdict(State.ERROR, "TooWide", "too wide", 3)
PROCESSING = Verdict(State.PROCESSING, "Applying", "its objects are being applied", 3, is_settled=False)
VERDICTS = st.builds(
    Verdict,
    st.sampled_from(State),
    st.sampled_from(["Applied", "TooWide"]),
    st.sampled_from(["", "too wide"]),
    st.none() | st.integers(1, 3),
    is_settled=st.booleans(),
)
SCHEMAS = st.sampled_from(
    [ANYTHING, NO_STATUS, StatusSchema(frozenset({"state"})), StatusSchema(frozenset({"conditions"}))]
)


def about(reference: ResourceReference | None) -> ModuleConfig:
    config = builders.module_config()
    return msgspec.structs.replace(config, spec=msgspec.structs.replace(config.spec, resource_ref=reference))


def snapshot(verdict: Verdict, **known: Any) -> ModuleCrSnapshot:
    """Return what is known of a Module CR that was read, and has no status."""
    given: dict[str, Any] = {"written": {}, "schema": ANYTHING} | known
    return ModuleCrSnapshot(config=about(REFERENCE), verdict=verdict, now=builders.NOW, seconds=100.0, **given)


def after(seen: ModuleCrSnapshot, step: WriteStatus | RecordEvent) -> ModuleCrSnapshot:
    event: dict[str, Any] = {"last_event": step.event, "last_event_at": seen.seconds} if step.event is not None else {}
    written = step.fields if isinstance(step, WriteStatus) else seen.written
    return replace(seen, written=written, **event)


def test_nothing_is_written_before_the_module_cr_was_read() -> None:
    assert plan(snapshot(READY, written=None)) == ReadModuleCr()
    assert plan(snapshot(READY, schema=None)) == ReadModuleCr()


def test_nothing_is_done_without_a_reference_to_one_object() -> None:
    assert plan(replace(snapshot(READY), config=about(None))) == ModuleCrDone()
    assert (
        plan(replace(snapshot(READY), config=about(ResourceReference(api_version="v1", kind="Thing"))))
        == ModuleCrDone()
    )


def test_settled_verdict_is_written_at_once() -> None:
    for verdict in (READY, ERROR):
        assert isinstance(plan(snapshot(verdict, unsettled_since=100.0)), WriteStatus)


def test_change_on_its_way_is_written_after_a_second() -> None:
    assert plan(snapshot(PROCESSING, unsettled_since=99.5)) == ModuleCrDone(requeue_after=SETTLING_SECONDS - 0.5)
    assert isinstance(plan(snapshot(PROCESSING, unsettled_since=99.0)), WriteStatus)


def test_progress_is_written_now_and_then() -> None:
    last_event = ModuleCrEvent("Normal", "Waiting", "waits for the module manager")
    seen = snapshot(PROCESSING, unsettled_since=0.0, last_event=last_event, last_event_at=96.0)
    assert plan(seen) == ModuleCrDone(requeue_after=PROGRESS_SECONDS - 4.0)
    assert isinstance(plan(replace(seen, verdict=READY)), WriteStatus)


def test_kind_without_status_gets_an_event() -> None:
    assert plan(snapshot(ERROR, schema=NO_STATUS)) == RecordEvent(
        ModuleCrEvent("Warning", "Refused", "too wide (TooWide)")
    )


def test_refused_fields_are_not_sent_again() -> None:
    step = plan(snapshot(ERROR))
    assert isinstance(step, WriteStatus)
    assert isinstance(plan(snapshot(ERROR, refused=step.fields)), RecordEvent)
    assert isinstance(plan(snapshot(READY, refused=step.fields)), WriteStatus)
    later = replace(snapshot(ERROR, refused=step.fields, last_event=step.event, last_event_at=90.0), now=LATER)
    assert isinstance(plan(later), ModuleCrDone | RecordEvent), "the time of its transition is not another status"


@for_all(verdict=VERDICTS, schema=SCHEMAS, seconds=st.floats(0, 20), alone=st.booleans(), gone=st.booleans())
def test_what_was_written_is_not_written_again(
    verdict: Verdict, schema: StatusSchema, seconds: float, alone: bool, gone: bool
) -> None:
    seen = snapshot(verdict, schema=schema, unsettled_since=seconds, is_left_alone=alone, is_gone=gone)
    step = plan(seen)
    if isinstance(step, WriteStatus | RecordEvent):
        assert not alone
        assert not gone
        assert isinstance(plan(after(seen, step)), ModuleCrDone)


@for_all(verdict=VERDICTS, schema=SCHEMAS)
def test_only_fields_of_the_kind_are_written(verdict: Verdict, schema: StatusSchema) -> None:
    step = plan(snapshot(verdict, schema=schema, unsettled_since=0.0))
    if isinstance(step, WriteStatus):
        assert all(schema.has(name) for name in step.fields)
        if verdict.state is State.READY and "state" in step.fields:
            assert step.fields["state"] == "Ready"
