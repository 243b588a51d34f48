"""Spans reach a collector, and a collector that does not take them costs nothing but spans."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from kyma_diagnostics import TracingOptions, TracingUnavailable, tracing
from kyma_diagnostics.tracing import END_SECONDS, endpoint_of
from kyma_local.ports import free_port
from tests.otlp import collector
from tests.waiting import eventually

MANY_SPANS = """
import sys
import time

from kyma_diagnostics import TracingOptions, tracing

began = time.monotonic()
with tracing(TracingOptions("klm", sys.argv[1], 1.0)) as tracer:
    for _ in range(3_000):
        with tracer.segment("admission", ""):
            pass
    print(time.monotonic() - began)
print(time.monotonic() - began)
"""


def test_spans_arrive_at_a_collector_when_the_program_ends() -> None:
    with collector() as received, tracing(TracingOptions("klm", received.endpoint, 1.0, instance="one")) as tracer:
        assert tracer is not None
        with tracer.segment("admission", "", attributes={"kind": "Kyma"}):
            pass
        assert received.spans == []

    (span,) = received.spans
    assert (span.service, span.name, span.attributes) == ("klm", "admission", {"kind": "Kyma"})


def test_text_without_utf_8_costs_no_other_span() -> None:
    with collector() as received, tracing(TracingOptions("klm", received.endpoint, 1.0)) as tracer:
        assert tracer is not None
        with tracer.segment("reconcile", "", attributes={"name": "x\ud800"}), tracer.part("render \udfff"):
            tracer.failed("y\ud800")
        with pytest.raises(ValueError, match="z"), tracer.segment("other", ""):
            raise ValueError("z\ud800")
    assert [(each.name, each.message) for each in received.spans] == [
        ("render ?", "y?"),
        ("reconcile", ""),
        ("other", "ValueError: z?"),
    ]
    assert received.spans[1].attributes == {"name": "x?"}


@pytest.mark.skipif("OTEL_COLLECTOR" not in os.environ, reason="OTEL_COLLECTOR is the program of a collector")
def test_opentelemetry_collector_takes_the_spans(tmp_path: Path) -> None:
    port, log = free_port(), tmp_path / "log"
    pipeline = {"receivers": ["otlp"], "exporters": ["debug"]}
    config = {
        "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{port}"}}}},
        "exporters": {"debug": {"verbosity": "detailed"}},
        "service": {"telemetry": {"metrics": {"level": "none"}}, "pipelines": {"traces": pipeline}},
    }
    (tmp_path / "config.yaml").write_bytes(msgspec.json.encode(config))
    command = [os.environ["OTEL_COLLECTOR"], f"--config=file:{tmp_path / 'config.yaml'}"]
    with log.open("wb") as output, subprocess.Popen(command, stderr=output) as process:
        try:
            asyncio.run(eventually(lambda: "Everything is ready" in log.read_text()))
            with tracing(TracingOptions("klm", f"http://127.0.0.1:{port}", 1.0)) as tracer:
                assert tracer is not None
                with tracer.segment("admission", "", attributes={"kind": "Kyma"}):
                    trace_id = tracer.traceparent()[3:35]
            asyncio.run(eventually(lambda: trace_id in log.read_text()))
        finally:
            process.terminate()
    text = log.read_text()
    for expected in ("service.name: Str(klm)", "Name           : admission", "kind: Str(Kyma)"):
        assert expected in text


def test_collector_that_takes_nothing_delays_nobody() -> None:
    """In a process of its own: what can't be sent is tried again until its process ends."""
    with collector() as received:
        received.status = 503
        command = [sys.executable, "-c", MANY_SPANS, received.endpoint]
        ran = subprocess.run(command, capture_output=True, check=True, timeout=120)
    made, ended = map(float, ran.stdout.split())
    assert made < 10
    assert ended < 2 * END_SECONDS + 10
    assert received.spans == []


def test_without_endpoint_nothing_is_imported_and_nothing_is_made() -> None:
    with tracing(TracingOptions("klm")) as tracer:
        assert tracer is None


def test_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kyma_diagnostics.exporting", None)
    with pytest.raises(TracingUnavailable, match="extra `tracing`"), tracing(TracingOptions("klm", "http://host:4318")):
        pass


@pytest.mark.parametrize(
    "text",
    [
        "collector:4318",
        "ftp://host",
        "http://",
        "http://u:p@host",
        "http://host?a=b",
        "http://host:port",
        "http://[::1",
    ],
)
def test_endpoint_that_is_no_url_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a URL"):
        endpoint_of(text)


@pytest.mark.parametrize("text", ["http://host:4318", "http://host:4318/", "http://host:4318/v1/traces"])
def test_address_for_traces_is_an_endpoint_too(text: str) -> None:
    assert endpoint_of(text) == "http://host:4318"
