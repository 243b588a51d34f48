"""Opens tracing for a program: its options, and the exporter that runs beside the event loop.

Spans wait in a bounded queue, from which a thread sends them over OTLP/HTTP. A collector that is slow, refuses or is
away costs spans and nothing else. The packages of OpenTelemetry are imported only where an endpoint is given.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from kyma_diagnostics.spans import ChangeTracer


END_SECONDS = 5.0


class TracingUnavailable(Exception):
    """An endpoint is given, and the packages that traces need are not installed."""


@dataclass(frozen=True, slots=True)
class TracingOptions:
    """Where spans are sent, and which: nowhere without an endpoint.

    `sampling_ratio` is the share of changes.
    """

    service: str
    endpoint: str = ""
    sampling_ratio: float = 0.0
    instance: str = ""


def endpoint_of(text: str) -> str:
    """Return the base URL of a collector, without a slash at its end. Raises ValueError."""
    if not text:
        return ""
    try:
        url = urlsplit(text)
        is_base = url.scheme in {"http", "https"} and url.hostname and url.port != 0
    except ValueError:  # of an address or port
        is_base = False
    if not is_base or url.query or url.fragment or url.username:
        raise ValueError(f"invalid OTLP endpoint {text!r}: expected a URL such as http://collector:4318")
    return text.rstrip("/").removesuffix("/v1/traces")


@contextmanager
def tracing(options: TracingOptions) -> "Iterator[ChangeTracer | None]":
    """Make spans inside the context, and send what is left at its end; None without an endpoint.

    Raises TracingUnavailable, and ValueError for an invalid endpoint.
    """
    endpoint = endpoint_of(options.endpoint)
    if not endpoint:
        yield None
        return
    try:
        from kyma_diagnostics.exporting import open_exporter  # noqa: PLC0415 - see above
        from kyma_diagnostics.spans import ChangeTracer  # noqa: PLC0415
    except ImportError as error:
        raise TracingUnavailable(f"traces need the extra `tracing` of this program's package: {error}") from error
    exporter = open_exporter(endpoint)
    tracer = ChangeTracer(
        exporter, service=options.service, instance=options.instance, sampling_ratio=options.sampling_ratio
    )
    try:
        yield tracer
    finally:
        # A daemon, and waited for not for long: a collector that is away must not delay the end of the program.
        ending = threading.Thread(target=exporter.shutdown, name="last traces", daemon=True)
        ending.start()
        ending.join(END_SECONDS)
