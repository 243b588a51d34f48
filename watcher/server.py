"""The two HTTP servers: admission over TLS for the API server, and metrics and probes in plain for the cluster."""

import logging
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response

from certs import ReloadingServerContext
from watcher.admission import ReviewMalformed, allowed, decode_review
from watcher.changes import ObjectChange, canary_in, change_in
from watcher.metrics import Metrics
from watcher.outbox import Entry, Outbox

log = logging.getLogger("watcher.admission")

LARGEST_REVIEW = 8 * 1024 * 1024  # two objects of the largest size that etcd takes, escaped


class Recorder:
    """Turns changes into entries of the outbox, each with an id and a trace of its own (W3C Trace Context)."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._sequence = 0

    def record(self, change: ObjectChange, observed_at: float) -> None:
        """Have a change told."""
        self._sequence += 1
        trace_id = secrets.token_hex(16)
        traceparent = f"00-{trace_id}-{secrets.token_hex(8)}-01"
        self._outbox.put(Entry(change, self._sequence, observed_at, trace_id, traceparent))
        log.log(
            change.log_level,
            "change admitted",
            extra={
                "event_id": trace_id,
                "traceparent": traceparent,
                "observed_at": observed_at,
                "kind": change.kind,
                "namespace": change.namespace,
                "object_name": change.name,
                "operation": change.operation,
            },
        )


def admission_app(recorder: Recorder, metrics: Metrics) -> FastAPI:
    """Return the application that answers admission requests."""
    app = FastAPI(title="SKR Watcher", docs_url=None, redoc_url=None, openapi_url=None)

    async def validate(request: Request) -> Response:
        observed_at, started = time.time(), time.perf_counter()
        try:
            review = decode_review(await _body(request))
        except ReviewMalformed as error:
            metrics.malformed()
            return Response(str(error), 400, media_type="text/plain")
        manager = request.path_params["manager"]
        change = canary_in(manager, review) if review.dry_run else change_in(manager, review)
        after = BackgroundTask(recorder.record, change, observed_at) if change is not None else None
        metrics.admitted(time.perf_counter() - started)
        return Response(allowed(review.uid), media_type="application/json", background=after)

    app.add_route("/validate/{manager}", validate, methods=["POST"])
    return app


def metrics_app(metrics: Metrics, ready: Callable[[], bool]) -> FastAPI:
    """Return the application for probes and Prometheus."""
    app = FastAPI(title="SKR Watcher metrics", docs_url=None, redoc_url=None, openapi_url=None)

    async def healthz(_: Request) -> Response:
        return Response("ok\n")

    async def readyz(_: Request) -> Response:
        return Response("ok\n") if ready() else Response("stopping\n", 503)

    async def show_metrics(_: Request) -> Response:
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    for path, handler in (("/healthz", healthz), ("/readyz", readyz), ("/metrics", show_metrics)):
        app.add_route(path, handler, methods=["GET"])
    return app


class Server(uvicorn.Server):
    """A server that leaves signals to the program it is part of."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


def server_of(app: FastAPI, host: str, port: int, tls: ReloadingServerContext | None = None) -> Server:
    """Return a server that is not started yet."""
    options: dict[str, Any] = {"http": "httptools", "access_log": False, "log_config": None, "lifespan": "off"}
    config = uvicorn.Config(app, host=host, port=port, server_header=False, timeout_graceful_shutdown=5, **options)
    config.load()
    if tls is not None:
        config.ssl = tls.ssl_context
    return Server(config)


async def _body(request: Request) -> bytes:
    chunks = bytearray()
    async for chunk in request.stream():
        chunks += chunk
        if len(chunks) > LARGEST_REVIEW:
            raise ReviewMalformed(f"the body is larger than {LARGEST_REVIEW} bytes")
    return bytes(chunks)
