"""Which traces are exported: those sampled at their head, and those of which a span failed or that take long.

Whether a change fails or takes long is known late. So its spans are kept until then: of each trace, of all traces
together and for how many traces within bounds, since names, numbers and traces come from clusters that are not trusted.
Each process decides by what it sees of a trace.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.trace import SpanContext, StatusCode, TraceFlags


@dataclass(frozen=True, slots=True)
class TailLimits:
    """A trace is slow where this process still works on it after `slow_seconds`, from its first span here.

    Spans beyond `max_spans` of a trace, or later than `max_seconds`, are not made. `max_traces` are known at a time,
    with `max_waiting` spans of those that are not exported yet; the oldest are dropped. So many traces a second are
    exported, `burst` at once.
    """

    slow_seconds: float = 1.0
    max_spans: int = 64
    max_seconds: float = 300.0
    max_traces: int = 1_000
    max_waiting: int = 4_000
    traces_per_second: float = 20.0
    burst: int = 100


DEFAULT_LIMITS = TailLimits()


@dataclass(eq=False, slots=True)
class _Trace:
    began: int
    waiting: list[ReadableSpan] = field(default_factory=list)
    spans: int = 0
    is_exported: bool | None = None
    """None while that is open."""


class Tail(SpanProcessor):
    """Passes spans on to an exporter, at once or when their trace turns out to be worth it."""

    def __init__(
        self,
        exporter: SpanProcessor,
        limits: TailLimits = DEFAULT_LIMITS,
        *,
        now: Callable[[], int] = time.time_ns,
    ) -> None:
        self._exporter = exporter
        self._limits = limits
        self._now = now
        self._traces: OrderedDict[int, _Trace] = OrderedDict()
        self._waiting = 0
        self._allowance = float(limits.burst)
        self._allowed_at = now()
        self._lock = threading.Lock()  # what renders may do so in a thread

    def admits(self, trace_id: int) -> bool:
        """Tell whether a further span of a trace is made: not for one that goes on for ever."""
        with self._lock:
            known = self._traces.get(trace_id)
            return known is None or (
                known.spans < self._limits.max_spans and self._now() - known.began <= self._limits.max_seconds * 1e9
            )

    def exports(self, span: SpanContext) -> bool:
        """Tell whether the trace of a span is exported, as far as that is known by now."""
        with self._lock:
            known = self._traces.get(span.trace_id)
            if known is None or known.is_exported is not None:
                return known is not None and bool(known.is_exported)
            return span.trace_flags.sampled or self._is_slow(known, self._now())

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Count a span."""
        with self._lock:
            known = self._traces.get(span.context.trace_id)
            if known is None:
                known = self._traces[span.context.trace_id] = _Trace(span.start_time or self._now())
                self._drop_oldest()
            known.spans += 1

    def on_end(self, span: ReadableSpan) -> None:
        """Export a span, or keep it for later."""
        context = span.context
        if context is None:
            return
        with self._lock:
            known = self._traces.get(context.trace_id)
            if known is None or known.is_exported is False:
                return  # one of too many
            if known.is_exported is None:
                known.waiting.append(span)
                self._waiting += 1
                failed = span.status.status_code is StatusCode.ERROR
                if failed or context.trace_flags.sampled or self._is_slow(known, span.end_time or self._now()):
                    known.is_exported = self._grants()
                    ended, known.waiting = known.waiting, []
                    self._waiting -= len(ended)
                else:
                    ended = []
                    self._drop_oldest()
            else:
                ended = [span]
            exported = ended if known.is_exported else []
        for each in exported:
            self._exporter.on_end(_sampled(each))

    def shutdown(self) -> None:
        """Send what is left."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int | None = None) -> bool:
        """Send what is to be sent by now."""
        return self._exporter.force_flush(timeout_millis or 30_000)

    def _is_slow(self, known: _Trace, ended: int) -> bool:
        return ended - known.began > self._limits.slow_seconds * 1e9

    def _grants(self) -> bool:
        """Tell whether one more trace may be exported now."""
        now, limits = self._now(), self._limits
        earned = max(0, now - self._allowed_at) / 1e9 * limits.traces_per_second
        self._allowance = min(float(limits.burst), self._allowance + earned)
        self._allowed_at = now
        if self._allowance < 1:
            return False
        self._allowance -= 1
        return True

    def _drop_oldest(self) -> None:
        while len(self._traces) > self._limits.max_traces or self._waiting > self._limits.max_waiting:
            _, dropped = self._traces.popitem(last=False)
            self._waiting -= len(dropped.waiting)


def _sampled(span: ReadableSpan) -> ReadableSpan:
    """Return a span as one that is sampled: exporters leave others out."""
    context = span.context
    if context is None or context.trace_flags.sampled:
        return span
    flags = TraceFlags(context.trace_flags | TraceFlags.SAMPLED)
    return ReadableSpan(
        span.name,
        context=SpanContext(context.trace_id, context.span_id, context.is_remote, flags, context.trace_state),
        parent=span.parent,
        resource=span.resource,
        attributes=span.attributes,
        events=span.events,
        links=span.links,
        kind=span.kind,
        status=span.status,
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )
