"""Receives spans over OTLP/HTTP, decoded by the official types of the protocol, as a collector does."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


@dataclass(frozen=True, slots=True)
class ReceivedSpan:
    service: str
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    began: int
    ended: int
    attributes: dict[str, str]
    failed: bool
    message: str


@dataclass(eq=False)
class Collector:
    """The spans that arrived. `status` is what further requests are answered with."""

    endpoint: str = ""
    spans: list[ReceivedSpan] = field(default_factory=list)
    status: int = 200
    requests: int = 0

    def traces(self) -> dict[str, list[ReceivedSpan]]:
        found: dict[str, list[ReceivedSpan]] = {}
        for each in tuple(self.spans):
            found.setdefault(each.trace_id, []).append(each)
        return found

    def take(self, body: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        for group in request.resource_spans:
            resource = {each.key: each.value.string_value for each in group.resource.attributes}
            for scope in group.scope_spans:
                for span in scope.spans:
                    values = {
                        each.key: each.value.string_value or str(each.value.int_value) for each in span.attributes
                    }
                    self.spans.append(
                        ReceivedSpan(
                            service=resource["service.name"],
                            name=span.name,
                            trace_id=span.trace_id.hex(),
                            span_id=span.span_id.hex(),
                            parent_id=span.parent_span_id.hex(),
                            began=span.start_time_unix_nano,
                            ended=span.end_time_unix_nano,
                            attributes=values,
                            failed=span.status.code == 2,
                            message=span.status.message,
                        )
                    )


@contextmanager
def collector() -> Iterator[Collector]:
    """Receive spans on a free port."""
    received = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.requests += 1
            assert self.path == "/v1/traces"
            assert self.headers["Content-Type"] == "application/x-protobuf"
            if received.status == 200:
                received.take(body)
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(received.status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in http.server
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    received.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield received
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
