"""The two HTTP applications: admission for the API server, and metrics and probes for the cluster.

Admission is a plain ASGI handler in front of a FastAPI application: each change in the cluster goes through it, so it
must be cheap. It responds first and records afterwards. It bounds the memory of all bodies: above the bound, a body
is read to its end and dropped except for the uid, which is all that the response needs.
"""

import re
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.requests import Request
from starlette.responses import Response

from skr_watcher.admission import ReviewMalformed, allowed, decode_review, uid_in
from skr_watcher.changes import canary_in, change_in
from skr_watcher.metrics import Metrics
from skr_watcher.pressure import BodyMemory, Lateness
from skr_watcher.recorder import Recorder

PREFIX = "/validate/"
MAX_REVIEW_BYTES = 6 * 1024 * 1024  # two objects of the maximum size of an API server
MAX_BODIES_BYTES = 6 * 1024 * 1024
HEAD_BYTES = 4096
# It becomes a part of the URL of events, so it must not contain anything with a meaning there.
_MANAGER = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class ClientGone(Exception):
    """The client has closed the connection."""


@dataclass(frozen=True, slots=True)
class Body:
    """The part of a request body that was kept."""

    content: bytes | bytearray
    whole: bool


class AdmissionApp(FastAPI):
    """Answers admission requests at /validate/<manager>."""

    def __init__(self, recorder: Recorder, metrics: Metrics, lateness: Lateness) -> None:
        super().__init__(title="SKR Watcher", docs_url=None, redoc_url=None, openapi_url=None)
        self._recorder = recorder
        self._metrics = metrics
        self._lateness = lateness
        self._memory = BodyMemory(MAX_BODIES_BYTES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; FastAPI answers 404 to any other path."""
        manager = scope.get("path", "").removeprefix(PREFIX)
        if scope.get("method") != "POST" or not _MANAGER.fullmatch(manager):
            await super().__call__(scope, receive, send)
            return
        self._recorder.reached()
        try:
            body = await self._read(receive)
        except ClientGone:
            self._recorder.missed()
            return
        if body.whole and not self._lateness.is_late:
            await self._review(manager, body.content, send)
        else:
            await self._shed(body.content, send)

    async def _review(self, manager: str, content: bytes | bytearray, send: Send) -> None:
        observed_at, started = time.time(), time.perf_counter()
        try:
            review = decode_review(content)
        except ReviewMalformed as error:
            if uid_in(content[:HEAD_BYTES]) is not None:  # an API server's, of an object that is nested too deep
                await self._shed(content, send)
                return
            self._metrics.malformed()
            await _answer(send, 400, str(error).encode(), b"text/plain; charset=utf-8")
            return
        change = canary_in(manager, review) if review.dry_run else change_in(manager, review)
        await _answer(send, 200, allowed(review.uid))
        self._metrics.admitted(time.perf_counter() - started)
        if change is not None:
            self._recorder.record(change, observed_at)

    async def _shed(self, content: bytes | bytearray, send: Send) -> None:
        """Allow without inspection."""
        self._recorder.missed()
        uid = uid_in(content[:HEAD_BYTES])
        if uid is None:
            self._metrics.malformed()
            await _answer(send, 413, b"body too large; no uid in the first 4 KiB", b"text/plain; charset=utf-8")
            return
        await _answer(send, 200, allowed(uid))
        self._metrics.admitted(0.0)

    async def _read(self, receive: Receive) -> Body:
        message = await receive()
        if message["type"] == "http.request" and not message.get("more_body"):
            return Body(message.get("body", b""), whole=True)
        kept, taken, whole = bytearray(), 0, True
        try:
            while True:
                if message["type"] != "http.request":
                    raise ClientGone
                chunk = message.get("body", b"")
                if whole and len(kept) + len(chunk) <= MAX_REVIEW_BYTES and self._memory.reserve(len(chunk)):
                    kept += chunk
                    taken += len(chunk)
                else:
                    self._memory.release(taken)
                    taken, whole = 0, False
                    kept = kept[:HEAD_BYTES] + chunk[: max(0, HEAD_BYTES - len(kept))]
                if not message.get("more_body"):
                    return Body(kept, whole)
                message = await receive()
        finally:
            self._memory.release(taken)


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


async def _answer(send: Send, status: int, body: bytes, media_type: bytes = b"application/json") -> None:
    headers = [(b"content-type", media_type), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
