"""An exporter that keeps what it is given, and a tracer before it."""

from dataclasses import dataclass, field

from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor

from kyma_diagnostics.spans import ChangeTracer


@dataclass(eq=False)
class Exported(SpanProcessor):
    spans: list[ReadableSpan] = field(default_factory=list)

    def on_end(self, span: ReadableSpan) -> None:
        assert span.context is not None
        assert span.context.trace_flags.sampled  # exporters leave others out
        self.spans.append(span)

    @property
    def names(self) -> list[str]:
        """The names of the spans, in the order of their ends."""
        return [each.name for each in self.spans]


def tracer_with(exported: Exported, *, ratio: float = 0.0) -> ChangeTracer:
    return ChangeTracer(exported, service="test", sampling_ratio=ratio)
