"""Spans reach a collector, and a collector that does not take them costs nothing but spans."""

import sys
import time

import pytest

from kyma_diagnostics import TracingOptions, TracingUnavailable, tracing
from kyma_diagnostics.tracing import END_SECONDS, endpoint_of
from tests.otlp import collector


def test_spans_arrive_at_a_collector_when_the_program_ends() -> None:
    with collector() as received, tracing(TracingOptions("klm", received.endpoint, 1.0, instance="one")) as tracer:
        assert tracer is not None
        with tracer.segment("admission", "", attributes={"kind": "Kyma"}):
            pass
        assert received.spans == []

    (span,) = received.spans
    assert (span.service, span.name, span.attributes) == ("klm", "admission", {"kind": "Kyma"})


def test_collector_that_takes_nothing_delays_nobody() -> None:
    with collector() as received:
        received.status = 503
        began = time.monotonic()
        with tracing(TracingOptions("klm", received.endpoint, 1.0)) as tracer:
            assert tracer is not None
            for _ in range(3_000):
                with tracer.segment("admission", ""):
                    pass
            assert time.monotonic() - began < 10
        assert time.monotonic() - began < 2 * END_SECONDS + 10
    assert received.spans == []


def test_without_endpoint_nothing_is_imported_and_nothing_is_made() -> None:
    with tracing(TracingOptions("klm")) as tracer:
        assert tracer is None


def test_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kyma_diagnostics.exporting", None)
    with pytest.raises(TracingUnavailable, match="extra `tracing`"), tracing(TracingOptions("klm", "http://host:4318")):
        pass


@pytest.mark.parametrize("text", ["collector:4318", "ftp://host", "http://", "http://u:p@host", "http://host?a=b"])
def test_endpoint_that_is_no_url_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a URL"):
        endpoint_of(text)
