"""Makes the spans of changes with the SDK of OpenTelemetry, of a share of all traces and of those that are sampled.

A trace is chosen by its id, so that every process comes to the same answer, whether or not those before it make spans.
What a span says comes from clusters that are not trusted: names and messages are cut, and there are few of them.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import Decision, ParentBased, Sampler, SamplingResult, TraceIdRatioBased
from opentelemetry.trace import Link, SpanKind, Status, StatusCode, TraceState
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import Attributes as AnyAttributes

Attributes = Mapping[str, str | int | float]
MAX_TEXT = 256
MAX_ATTRIBUTES = 16
MAX_NAME = 128
MAX_SEGMENTS_A_SECOND = 100
MAX_SEGMENTS_AT_ONCE = 500
_NO_ATTRIBUTES: Attributes = {}
_PROPAGATOR = TraceContextTextMapPropagator()
_LIMITS = SpanLimits(
    max_span_attributes=MAX_ATTRIBUTES,
    max_attribute_length=MAX_TEXT,
    max_span_attribute_length=MAX_TEXT,
    max_events=0,
    max_links=0,
)


class ChangeTracer:
    """The tracer of one program. A span is the present one within its context and the tasks that are started there."""

    def __init__(
        self,
        exporter: SpanProcessor,
        *,
        service: str,
        instance: str = "",
        sampling_ratio: float = 0.0,
    ) -> None:
        head = HeadSampler(sampling_ratio)
        described = {"service.name": service, "service.instance.id": instance}
        provider = TracerProvider(
            sampler=ParentBased(head, remote_parent_sampled=head, remote_parent_not_sampled=head),
            resource=Resource({key: value for key, value in described.items() if value}),
            span_limits=_LIMITS,
            shutdown_on_exit=False,
        )
        provider.add_span_processor(exporter)
        self._tracer = provider.get_tracer("kyma")

    @contextmanager
    def segment(
        self,
        name: str,
        trace: str,
        *,
        started: datetime | None = None,
        attributes: Attributes = _NO_ATTRIBUTES,
    ) -> Iterator[None]:
        """Continue a trace of another process or task, or begin one where it is empty.

        Nothing is measured for a text that names no trace.
        """
        context = _PROPAGATOR.extract({"traceparent": trace}, context=Context()) if trace else Context()
        if trace and not _span_context(context).is_valid:
            yield
            return
        began = None if started is None else int(started.timestamp() * 1e9)
        with self._measured(name, context, attributes, began=began, expected=()):
            yield

    @contextmanager
    def part(
        self, name: str, attributes: Attributes = _NO_ATTRIBUTES, *, expected: tuple[type[Exception], ...] = ()
    ) -> Iterator[None]:
        """Measure a part of the present segment; nothing where that has ended or is not sampled."""
        if not trace.get_current_span().is_recording():
            yield
            return
        with self._measured(name, None, attributes, began=None, expected=expected):
            yield

    def traceparent(self) -> str:
        """Return the name of the present span; nothing outside of a trace."""
        if not _span_context(None).is_valid:
            return ""
        carrier: dict[str, str] = {}
        _PROPAGATOR.inject(carrier)
        return carrier.get("traceparent", "")

    def exemplar(self) -> dict[str, str] | None:
        """Return the id of the present trace, None where it is not exported."""
        context = _span_context(None)
        return {"trace_id": trace.format_trace_id(context.trace_id)} if context.trace_flags.sampled else None

    def failed(self, reason: str) -> None:
        """Mark the present span as failed."""
        trace.get_current_span().set_status(Status(StatusCode.ERROR, _cut(reason)))

    @contextmanager
    def _measured(
        self,
        name: str,
        context: Context | None,
        attributes: Attributes,
        *,
        began: int | None,
        expected: tuple[type[Exception], ...],
    ) -> Iterator[None]:
        with self._tracer.start_as_current_span(
            _cut(name, MAX_NAME),
            context=context,
            attributes={key: _cut(value) if isinstance(value, str) else value for key, value in attributes.items()},
            start_time=began,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield
            except Exception as error:
                message = _cut(f"{type(error).__name__}: {error}")
                if isinstance(error, expected):
                    span.set_attribute("answer", message)
                else:
                    span.set_status(Status(StatusCode.ERROR, message))
                raise


class HeadSampler(Sampler):
    """Samples a share of all traces by their ids, and those that the sender has sampled: within a rate.

    Senders are not trusted: they choose the ids, too.
    """

    def __init__(self, ratio: float, now: Callable[[], float] = time.monotonic) -> None:
        self._by_id = TraceIdRatioBased(ratio)
        self._now = now
        self._allowance = float(MAX_SEGMENTS_AT_ONCE)
        self._allowed_at = now()

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: AnyAttributes = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        """Decide on the first span of a segment."""
        chosen = _span_context(parent_context).trace_flags.sampled or (
            self._by_id.should_sample(None, trace_id, name).decision is Decision.RECORD_AND_SAMPLE
        )
        is_sampled = chosen and self._grants()
        return SamplingResult(Decision.RECORD_AND_SAMPLE if is_sampled else Decision.DROP, attributes)

    def get_description(self) -> str:
        """Return what the sampler is called."""
        return f"HeadSampler{{{self._by_id.get_description()}}}"

    def _grants(self) -> bool:
        now = self._now()
        earned = (now - self._allowed_at) * MAX_SEGMENTS_A_SECOND
        self._allowed_at = now
        self._allowance = min(float(MAX_SEGMENTS_AT_ONCE), self._allowance + earned)
        is_granted = self._allowance >= 1
        self._allowance -= is_granted
        return is_granted


def _cut(text: str, most: int = MAX_TEXT) -> str:
    """Return the beginning of a text, without what has no UTF-8: one such text would have its whole batch dropped."""
    return text[:most].encode(errors="replace").decode()


def _span_context(context: Context | None) -> trace.SpanContext:
    return trace.get_current_span(context).get_span_context()
