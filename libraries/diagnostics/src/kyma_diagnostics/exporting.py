"""Sends spans over OTLP/HTTP, in a thread of its own."""

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.sdk.trace.export import BatchSpanProcessor

REQUEST_SECONDS = 5.0
"""How long one batch may take with its retries, and so about how long the end of a program waits for it."""
MAX_WAITING = 2_048
MAX_BATCH = 256
BATCH_MILLISECONDS = 1_000
PATH = "/v1/traces"


def open_exporter(endpoint: str) -> SpanProcessor:
    """Return what takes spans that ended and sends them in batches; those that its queue cannot hold are dropped.

    Headers, a CA and compression are taken from the variables that OpenTelemetry defines (`OTEL_EXPORTER_OTLP_…`).
    """
    return BatchSpanProcessor(
        OTLPSpanExporter(endpoint=f"{endpoint}{PATH}", timeout=REQUEST_SECONDS),
        max_queue_size=MAX_WAITING,
        max_export_batch_size=MAX_BATCH,
        schedule_delay_millis=BATCH_MILLISECONDS,
    )
