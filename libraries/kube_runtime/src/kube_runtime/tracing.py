"""Where the time of one change goes: spans of its reconciles, their steps and their requests.

A program that wants spans gives the Manager a tracer. A change is traced from where its trace enters this process: in a
signal that is published within a trace, or in an annotation of a watched object (`ManagerOptions.trace_annotation`).
Its trace travels with the key through the queue, and everything that the reconcile does is part of it. Without a
tracer, and outside of a trace, a part costs one look into a context variable.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from datetime import datetime
from typing import Protocol

Attributes = Mapping[str, str | int | float]


class Tracer(Protocol):
    """Makes spans. Traces are named as by W3C Trace Context: `00-TRACE-SPAN-FLAGS`."""

    def segment(
        self, name: str, trace: str, *, started: datetime | None = None, attributes: Attributes = ...
    ) -> AbstractContextManager[None]:
        """Continue a trace of another process or task, or begin one where it is empty; a failure is its end's."""
        ...

    def part(
        self, name: str, attributes: Attributes = ..., *, expected: tuple[type[Exception], ...] = ()
    ) -> AbstractContextManager[None]:
        """Measure a part of the present segment. Expected exceptions are answers and no failures."""
        ...

    def traceparent(self) -> str:
        """Return the name of the present span; nothing outside of a trace."""
        ...

    def exemplar(self) -> dict[str, str] | None:
        """Return what names the present trace beside a measured value, None where the trace is not exported."""
        ...


_NOTHING = nullcontext()
_tracer: ContextVar[Tracer | None] = ContextVar("tracer", default=None)
"""The tracer of the present segment; None outside of one."""


@contextmanager
def segment(
    tracer: Tracer, name: str, trace: str, *, started: datetime | None = None, attributes: Attributes
) -> Iterator[None]:
    """Continue a trace with all parts inside the context."""
    with tracer.segment(name, trace, started=started, attributes=attributes):
        token = _tracer.set(tracer)
        try:
            yield
        finally:
            _tracer.reset(token)


def part(
    name: str, attributes: Attributes | None = None, *, expected: tuple[type[Exception], ...] = ()
) -> AbstractContextManager[None]:
    """Measure a part of what is traced; nothing outside of a trace."""
    tracer = _tracer.get()
    return _NOTHING if tracer is None else tracer.part(name, attributes or {}, expected=expected)


def is_traced() -> bool:
    """Tell whether anything is traced at present, where only naming a part would cost something."""
    return _tracer.get() is not None


def present() -> str:
    """Return the name of the present span; nothing outside of a trace."""
    tracer = _tracer.get()
    return "" if tracer is None else tracer.traceparent()


def handed_on(trace: str) -> str:
    """Return the trace to hand on with a change: the present span if it continues that trace, else it unchanged."""
    now = present()
    return now if now and (not trace or _id(now) == _id(trace)) else trace


def exemplar() -> dict[str, str] | None:
    """Return what names the present trace beside a measured value; None without one that is exported."""
    tracer = _tracer.get()
    return None if tracer is None else tracer.exemplar()


def _id(trace: str) -> str:
    return trace[3:35]
