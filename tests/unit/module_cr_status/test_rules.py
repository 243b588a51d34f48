"""When the status of a Module CR is written, and what, without any cluster."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
from hypothesis import given as for_all
from hypothesis import strategies as st

from lifecycle_manager.contract.verdict import Verdict
from lifecycle_manager.module_cr_status.rules import PROGRESS_SECONDS, ToWrite, reference_of, to_write
from lifecycle_manager.module_cr_status.schema import ANYTHING, NO_STATUS, StatusSchema
from lifecycle_manager.module_cr_status.snapshot import REFUSED_SECONDS, ModuleCrSnapshot, StatusMemory
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
    memory = StatusMemory(**{"uid": "uid", "written": {}} | known)
    return ModuleCrSnapshot(config=about(REFERENCE), verdict=verdict, memory=memory, now=builders.NOW, seconds=100.0)


def after(seen: ModuleCrSnapshot, done: ToWrite) -> ModuleCrSnapshot:
    memory = replace(seen.memory)
    if done.event is not None:
        memory.last_event, memory.last_event_at = done.event, seen.seconds
    if done.fields is not None:
        memory.written = done.fields
    return replace(seen, memory=memory)


def test_nothing_is_written_before_the_module_cr_was_read() -> None:
    assert to_write(snapshot(READY, written=None), ANYTHING) == ToWrite()


def test_nothing_is_done_without_a_reference_to_one_object() -> None:
    assert reference_of(snapshot(READY)) == REFERENCE
    for reference in (None, ResourceReference(api_version="v1", kind="Thing")):
        assert reference_of(replace(snapshot(READY), config=about(reference))) is None


def test_nothing_is_done_where_no_module_may_have_the_kind() -> None:
    secret = ResourceReference(api_version="v1", kind="Secret", name="one", uid="uid")
    assert reference_of(replace(snapshot(READY), config=about(secret))) is None


def test_nothing_but_an_event_is_written_where_an_operator_writes() -> None:
    done = to_write(snapshot(ERROR, left_alone_at=99.0), ANYTHING)
    assert (done.fields, done.event is not None) == (None, True)
    assert to_write(snapshot(ERROR, left_alone_at=100.0 - REFUSED_SECONDS), ANYTHING).fields is not None


def test_progress_is_written_now_and_then() -> None:
    last_event = ModuleCrEvent("Normal", "Waiting", "waits for the module manager")
    seen = snapshot(PROCESSING, unsettled_since=0.0, last_event=last_event, last_event_at=96.0)
    assert to_write(seen, ANYTHING) == ToWrite(requeue_after=PROGRESS_SECONDS - 4.0)
    assert to_write(replace(seen, verdict=READY), ANYTHING).fields is not None


def test_refused_fields_are_not_sent_again() -> None:
    first = to_write(snapshot(ERROR), ANYTHING)
    assert first.fields is not None
    refused: dict[str, Any] = {"refused": first.fields, "refusal_at": 90.0}
    again = to_write(snapshot(ERROR, **refused), ANYTHING)
    assert (again.fields, again.event) == (None, first.event)
    assert to_write(snapshot(READY, **refused), ANYTHING).fields is not None
    later = replace(snapshot(ERROR, **refused, last_event=first.event, last_event_at=90.0), now=LATER)
    assert to_write(later, ANYTHING).fields is None, "the time of its transition is not another status"
    long_after = replace(later, seconds=90.0 + REFUSED_SECONDS)
    assert to_write(long_after, ANYTHING).fields is not None


@for_all(verdict=VERDICTS, schema=SCHEMAS, seconds=st.floats(0, 20))
def test_what_was_written_is_not_written_again(verdict: Verdict, schema: StatusSchema, seconds: float) -> None:
    seen = snapshot(verdict, unsettled_since=seconds)
    first = to_write(seen, schema)
    assert to_write(after(seen, first), schema)[:2] == (None, None)


@for_all(verdict=VERDICTS, schema=SCHEMAS)
def test_only_fields_of_the_kind_are_written(verdict: Verdict, schema: StatusSchema) -> None:
    fields = to_write(snapshot(verdict, unsettled_since=0.0), schema).fields or {}
    assert all(schema.has(name) for name in fields)
    if verdict.state is State.READY and "state" in fields:
        assert fields["state"] == "Ready"
