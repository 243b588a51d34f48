"""Which traces are exported, and what hostile names and traces can do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kyma_diagnostics.spans import MAX_SEGMENTS_AT_ONCE, MAX_TEXT
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


def test_trace_that_is_not_sampled_is_not_exported_and_handed_on_as_such() -> None:
    exported = Exported()
    tracer = tracer_with(exported)
    with tracer.segment("reconcile", REMOTE), tracer.part("PATCH kymas"):
        assert tracer.exemplar() is None
        handed_on = tracer.traceparent()

    assert (handed_on[:36], handed_on[52:]) == (REMOTE[:36], "-00")
    assert exported.names == []


def test_trace_that_its_head_sampled_is_exported_and_named_by_exemplars() -> None:
    exported = Exported()
    tracer = tracer_with(exported)
    with tracer.segment("reconcile", SAMPLED):
        assert tracer.exemplar() == {"trace_id": SAMPLED[3:35]}

    assert exported.names == ["reconcile"]


def test_failure_is_the_status_of_its_span() -> None:
    exported = Exported()
    tracer = tracer_with(exported, ratio=1.0)
    with pytest.raises(ConnectionError), tracer.segment("reconcile", REMOTE):
        raise ConnectionError("refused")

    assert [each.status.description for each in exported.spans] == ["ConnectionError: refused"]


def test_expected_exception_is_an_answer_and_no_failure() -> None:
    exported = Exported()
    tracer = tracer_with(exported, ratio=1.0)
    with (
        tracer.segment("reconcile", REMOTE),
        pytest.raises(KeyError),
        tracer.part("GET kymas", expected=(LookupError,)),
    ):
        raise KeyError("kyma")

    assert [each.status.is_unset for each in exported.spans] == [True, True]
    assert (exported.spans[0].attributes or {})["answer"] == "KeyError: 'kyma'"


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


def test_flood_of_sampled_traces_is_exported_within_a_rate() -> None:
    exported = Exported()
    tracer = tracer_with(exported)
    for number in range(1, 20 * MAX_SEGMENTS_AT_ONCE):
        with tracer.segment("verification", f"00-{number:032x}-0123456789abcdef-01"):
            pass

    assert MAX_SEGMENTS_AT_ONCE <= len(exported.spans) < 3 * MAX_SEGMENTS_AT_ONCE


def test_processes_agree_on_the_share_of_traces_by_their_ids() -> None:
    first, second = Exported(), Exported()
    tracers = [tracer_with(each, ratio=0.3) for each in (first, second)]
    for number in range(500):
        trace_id = number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128
        for tracer in tracers:
            with tracer.segment("reconcile", f"00-{trace_id:032x}-{'1' * 16}-00"):
                pass

    chosen = [{f"{each.context.trace_id:032x}" for each in found.spans if each.context} for found in (first, second)]
    assert chosen[0] == chosen[1]
    assert 100 < len(chosen[0]) < 200
