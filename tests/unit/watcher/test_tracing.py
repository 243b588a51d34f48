"""The Watcher begins the trace of a change, and an event carries the span of the attempt to deliver it."""

import time

from skr_watcher.changes import ObjectChange, heartbeat
from skr_watcher.metrics import Metrics
from skr_watcher.outbox import RESYNC, Outbox
from skr_watcher.recorder import Recorder
from tests.unit.diagnostics.recorded import Exported, tracer_with

RESYNC_CHANGE = ObjectChange("klm", "", "", "", "", "", RESYNC, "", "", 0)
CHANGE = ObjectChange("klm", "example.com", "v1", "Thing", "default", "one", "UPDATE", "uid", "7", 1)


async def test_change_begins_a_trace_at_its_admission() -> None:
    exported, outbox = Exported(), Outbox(10)
    observed_at = time.time() - 0.5
    Recorder(outbox, RESYNC_CHANGE, Metrics(), tracer_with(exported, ratio=1.0)).record(CHANGE, observed_at)

    (span,), (entry,) = exported.spans, tuple(outbox.entries)
    assert span.context is not None
    assert span.name == "admission"
    assert span.attributes is not None
    assert (span.attributes["kind"], span.attributes["object_name"]) == ("Thing", "one")
    assert abs((span.start_time or 0) / 1e9 - observed_at) < 0.001
    assert entry.traceparent.startswith(f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-")
    assert int(entry.traceparent[-2:], 16) & 1  # sampled
    assert entry.event_id == f"{span.context.trace_id:032x}"


async def test_heartbeats_and_resyncs_are_no_changes() -> None:
    exported, outbox = Exported(), Outbox(10)
    recorder = Recorder(outbox, RESYNC_CHANGE, Metrics(), tracer_with(exported, ratio=1.0))
    recorder.record(heartbeat("klm", "heartbeat"), time.time())
    recorder.resync()

    assert exported.names == []
    assert len(outbox) == 2


async def test_without_a_tracer_a_change_has_a_trace_that_is_not_sampled() -> None:
    outbox = Outbox(10)
    Recorder(outbox, RESYNC_CHANGE, Metrics()).record(CHANGE, time.time())

    (entry,) = outbox.entries
    assert entry.traceparent.startswith(f"00-{entry.event_id}-")
    assert entry.traceparent.endswith("-00")
