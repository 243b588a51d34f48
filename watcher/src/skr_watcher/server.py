"""The two HTTP applications: admission for the API server, and metrics and probes for the cluster.

Admission is a plain ASGI handler in front of its FastAPI application: it is asked at each change in the cluster, and
must cost as little as can be. It answers first and records after, and it holds few bytes: a body that does not fit into
the room there is for all of them is read to its end and forgotten but for the uid, which is all that the answer needs.
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
from skr_watcher.pressure import Lateness, Room
from skr_watcher.recorder import Recorder

PREFIX = "/validate/"
LARGEST_REVIEW = 6 * 1024 * 1024  # two objects of the largest size that an API server takes
ROOM = 6 * 1024 * 1024
HEAD = 4096
# It becomes a part of the URL that events go to, so it must not be able to mean anything there.
_MANAGER = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class ClientGone(Exception):
    """Who asked does not wait for the answer any more."""


@dataclass(frozen=True, slots=True)
class Body:
    """What was kept of a request's body."""

    content: bytes | bytearray
    whole: bool


class AdmissionApp(FastAPI):
    """Answers admission requests at /validate/<manager>."""

    def __init__(self, recorder: Recorder, metrics: Metrics, lateness: Lateness) -> None:
        super().__init__(title="SKR Watcher", docs_url=None, redoc_url=None, openapi_url=None)
        self._recorder = recorder
        self._metrics = metrics
        self._lateness = lateness
        self._room = Room(ROOM)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; what is no admission is FastAPI's, which knows no path and says so."""
        manager = scope.get("path", "").removeprefix(PREFIX)
        if scope.get("method") != "POST" or not _MANAGER.fullmatch(manager):
            await super().__call__(scope, receive, send)
            return
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
            self._metrics.malformed()
            await _answer(send, 400, str(error).encode(), b"text/plain; charset=utf-8")
            return
        change = canary_in(manager, review) if review.dry_run else change_in(manager, review)
        await _answer(send, 200, allowed(review.uid))
        self._metrics.admitted(time.perf_counter() - started)
        if change is not None:
            self._recorder.record(change, observed_at)

    async def _shed(self, content: bytes | bytearray, send: Send) -> None:
        """Allow without a look."""
        self._recorder.missed()
        uid = uid_in(content[:HEAD])
        if uid is None:
            self._metrics.malformed()
            await _answer(send, 413, b"this is too much, and its head has no uid", b"text/plain; charset=utf-8")
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
                if whole and len(kept) + len(chunk) <= LARGEST_REVIEW and self._room.take(len(chunk)):
                    kept += chunk
                    taken += len(chunk)
                else:
                    self._room.give(taken)
                    taken, whole = 0, False
                    kept = kept[:HEAD] + chunk[: max(0, HEAD - len(kept))]
                if not message.get("more_body"):
                    return Body(kept, whole)
                message = await receive()
        finally:
            self._room.give(taken)


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
