"""Which traces are exported, and what hostile names and traces can do."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kyma_diagnostics.spans import MAX_TEXT
from kyma_diagnostics.tail import TailLimits
from tests.unit.diagnostics.recorded import Exported, tracer_with

REMOTE = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-00"
SAMPLED = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"


def test_trace_of_another_process_is_continued() -> None:
    exported = Exported()
    tracer = tracer_with(exported, ratio=1.0)
    with tracer.segment("reconcile", REMOTE):
        inner = tracer.traceparent()
        with tracer.part("PATCH kymas"):
            pass

    part, segment = exported.spans
    assert segment.parent is not None
    assert part.parent is not None
    assert segment.context is not None
    assert f"{segment.parent.span_id:016x}" == REMOTE[36:52]
    assert part.parent.span_id == segment.context.span_id
    assert inner[:36] == REMOTE[:36]
    assert inner[36:] == f"{segment.context.span_id:016x}-01"


def test_trace_that_is_neither_sampled_nor_failed_nor_slow_is_not_exported() -> None:
    exported = Exported()
    tracer = tracer_with(exported)
    with tracer.segment("reconcile", REMOTE), tracer.part("PATCH kymas"):
        assert tracer.exemplar() is None

    assert exported.names == []


def test_trace_that_its_head_sampled_is_exported_and_named_by_exemplars() -> None:
    exported = Exported()
    tracer = tracer_with(exported)
    with tracer.segment("reconcile", SAMPLED):
        assert tracer.exemplar() == {"trace_id": SAMPLED[3:35]}

    assert exported.names == ["reconcile"]


def test_failure_exports_what_was_kept_of_its_trace_and_what_follows() -> None:
    exported = Exported()
    tracer = tracer_with(exported)
    with tracer.segment("verification", REMOTE):
        pass
    with pytest.raises(ConnectionError), tracer.segment("reconcile", REMOTE):
        raise ConnectionError("refused")
    with tracer.segment("retry", REMOTE):
        assert tracer.exemplar() is not None

    assert exported.names == ["verification", "reconcile", "retry"]
    assert exported.spans[1].status.description == "ConnectionError: refused"


def test_expected_exception_is_an_answer_and_no_failure() -> None:
    exported = Exported()
    tracer = tracer_with(exported)
    with (
        tracer.segment("reconcile", REMOTE),
        pytest.raises(KeyError),
        tracer.part("GET kymas", expected=(LookupError,)),
    ):
        raise KeyError("kyma")

    assert exported.names == []


def test_slow_change_is_exported_with_all_that_came_before() -> None:
    exported = Exported()
    tracer = tracer_with(exported, limits=TailLimits(slow_seconds=2.0))
    began = datetime.now(UTC) - timedelta(seconds=3)
    with tracer.segment("verification", REMOTE, started=began), tracer.part("publish"):
        assert tracer.exemplar() is not None

    assert exported.names == ["publish", "verification"]


def test_text_that_names_no_trace_is_not_continued() -> None:
    exported = Exported()
    tracer = tracer_with(exported, ratio=1.0)
    for text in ("nonsense", "00-0-0-0", f"{REMOTE}" * 2, "00-" + "0" * 32 + "-0123456789abcdef-01"):
        with tracer.segment("reconcile", text), tracer.part("PATCH kymas"):
            assert tracer.traceparent() == ""

    assert exported.names == []


@given(st.text(max_size=400), st.text(max_size=2_000))
def test_names_of_clusters_are_cut(trace: str, name: str) -> None:
    exported = Exported()
    tracer = tracer_with(exported, ratio=1.0)
    attributes = {f"a{number}": name for number in range(40)}
    with tracer.segment(name, "", attributes=attributes), tracer.segment(name, trace):
        tracer.failed(name)

    for span in exported.spans:
        assert len(span.name) <= MAX_TEXT
        assert len(span.attributes or {}) <= 16
        assert all(len(str(value)) <= MAX_TEXT for value in (span.attributes or {}).values())
        assert len(span.status.description or "") <= MAX_TEXT


def test_trace_without_end_gets_no_more_spans() -> None:
    exported = Exported()
    tracer = tracer_with(exported, ratio=1.0, limits=TailLimits(max_spans=5))
    for _ in range(20):
        with tracer.segment("retry", SAMPLED), tracer.part("PATCH kymas"):
            pass

    assert len(exported.spans) <= 6


def test_traces_of_a_flood_are_dropped_beyond_the_bounds() -> None:
    exported = Exported()
    limits = TailLimits(max_traces=10, max_waiting=20, traces_per_second=0.0, burst=3)
    tracer = tracer_with(exported, limits=limits)
    for number in range(1, 100):
        with tracer.segment("verification", f"00-{number:032x}-0123456789abcdef-01"):
            pass
        for _ in range(4):
            with tracer.segment("reconcile", f"00-{number << 64 | 1:032x}-0123456789abcdef-00"):
                pass

    assert len(exported.spans) == 3
    assert tracer._tail._waiting <= 20  # noqa: SLF001 - what the bound is about
    assert len(tracer._tail._traces) <= 10  # noqa: SLF001


def test_processes_agree_on_the_share_of_traces_by_their_ids() -> None:
    first, second = Exported(), Exported()
    tracers = [tracer_with(each, ratio=0.3, limits=TailLimits(burst=1_000)) for each in (first, second)]
    for number in range(500):
        trace_id = number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128
        for tracer in tracers:
            with tracer.segment("reconcile", f"00-{trace_id:032x}-{'1' * 16}-00"):
                pass

    chosen = [{f"{each.context.trace_id:032x}" for each in found.spans if each.context} for found in (first, second)]
    assert chosen[0] == chosen[1]
    assert 100 < len(chosen[0]) < 200
