"""Watchers of simulated clusters: they send the first event, changes, heartbeats and answers to canaries.

A Watcher starts when its Secret is written in its cluster, and takes a new certificate from there. As the real one it
keeps one connection, sends a heartbeat where it had nothing else to send for 46 s, and loses no change.
"""

import asyncio
import secrets
from base64 import b64decode
from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import quote

import aiohttp

from kyma_demo.rollout.senders import EventSigner
from lifecycle_manager.skr.watcher import CANARY_HEARTBEAT, HEARTBEAT
from lifecycle_manager_api import Watched, WatchedGvk, WatchEvent

HEARTBEAT_SECONDS = 46.0
RETRY_SECONDS = 1.0
TIMEOUT = aiohttp.ClientTimeout(total=20)
GO_WAITS = (0.0, 2.0, 4.0)
"""Before each attempt of the Go version."""
GO_TIMEOUT = aiohttp.ClientTimeout(total=180)


class FleetWatcher:
    """The Watcher of one cluster. `refused` counts events that were not accepted, and are sent again."""

    def __init__(self, port: int) -> None:
        self.url = f"https://127.0.0.1:{port}/v2/lifecycle-manager/event"
        self.is_cut_off = False
        self.accepted = self.refused = 0
        self._epoch = secrets.token_hex(8)
        self._sequence = 0
        self._signer: EventSigner | None = None
        self._session: aiohttp.ClientSession | None = None
        self._pending: deque[WatchEvent] = deque()
        self._woken = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    def mount(self, secret: Mapping[str, str]) -> None:
        """Take the certificate of a Secret, and start with the first one."""
        self._signer = EventSigner.of(secret)
        session, self._session = self._session, None
        if session is not None:
            self._closing = asyncio.ensure_future(session.close())
        if self._running is None:
            self._pending.append(self._event(HEARTBEAT))
            self._running = asyncio.ensure_future(self._run())

    def stop(self) -> None:
        """End it, as its cluster does."""
        if self._running is not None:
            self._running.cancel()
            self._running = None

    def report(
        self, gvk: WatchedGvk, watched: Watched, *, uid: str = "", version: str = "", challenge: str = ""
    ) -> None:
        """Report a change of an object, with the version before it, and the challenge of a canary that is written."""
        fields = {"watched": watched, "watched_gvk": gvk, "uid": uid, "resource_version": version}
        self._send(self._event("UPDATE", **fields, challenge=challenge))

    def answer(self, challenge: str) -> None:
        """Answer a canary."""
        self._send(self._event(HEARTBEAT, watched=Watched(name=CANARY_HEARTBEAT), challenge=challenge))

    def _send(self, event: WatchEvent) -> None:
        self._pending.append(event)
        self._woken.set()

    def _event(self, operation: str, **fields: object) -> WatchEvent:
        self._sequence += 1
        return WatchEvent(
            id=secrets.token_hex(16),
            operation=operation,
            epoch=self._epoch,
            sequence=self._sequence,
            observed_at=datetime.now(UTC).isoformat().replace("+00:00", "Z"),
            traceparent=f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-00",
            counters={"pending": len(self._pending), "overflows": 0},
            **fields,  # type: ignore[arg-type]
        )

    async def _run(self) -> None:
        try:
            while True:
                if not self._pending:
                    self._woken.clear()
                    try:
                        async with asyncio.timeout(HEARTBEAT_SECONDS):
                            await self._woken.wait()
                    except TimeoutError:
                        self._pending.append(self._event(HEARTBEAT))
                if await self._is_accepted(self._pending[0]):
                    self._pending.popleft()
                    self.accepted += 1
                else:
                    self.refused += 1
                    await asyncio.sleep(RETRY_SECONDS * (0.5 + secrets.randbelow(100) / 100))
        finally:
            if self._session is not None:
                await self._session.close()

    async def _is_accepted(self, event: WatchEvent) -> bool:
        if self.is_cut_off or self._signer is None:
            return False
        body, headers = self._signer.signed(self.url, event)
        if self._session is None:
            connector = aiohttp.TCPConnector(keepalive_timeout=75, limit=1, ssl=self._signer.tls)
            self._session = aiohttp.ClientSession(connector=connector, timeout=TIMEOUT)
        try:
            async with self._session.post(self.url, data=body, headers=headers) as answer:
                return answer.status == 200
        except (aiohttp.ClientError, TimeoutError, RuntimeError):  # a session that is closed for another certificate
            return False


class GoWatcher(FleetWatcher):
    """The Watcher of the Go version behind its gateway: it sends a change three times, and then no more."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.url = self.url.replace("https:", "http:")
        self._sending: set[asyncio.Task[None]] = set()
        self._certificate = ""

    def mount(self, secret: Mapping[str, str]) -> None:
        """Take the certificate of a Secret, which the gateway passes on."""
        self._certificate = quote(b64decode(secret["tls.crt"]).decode())
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=GO_TIMEOUT)

    def stop(self) -> None:
        """End it, as its cluster does."""
        for each in self._sending:
            each.cancel()
        if self._session is not None:
            self._closing = asyncio.ensure_future(self._session.close())
            self._session = None

    def _send(self, event: WatchEvent) -> None:
        task = asyncio.ensure_future(self._deliver(event))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _deliver(self, event: WatchEvent) -> None:
        for seconds in GO_WAITS:
            await asyncio.sleep(seconds)
            if await self._is_accepted(event):
                self.accepted += 1
                return
            self.refused += 1

    async def _is_accepted(self, event: WatchEvent) -> bool:
        if self.is_cut_off or self._session is None:
            return False
        watched, gvk = event.watched, event.watched_gvk
        body = {
            "watched": {"Namespace": watched.namespace, "Name": watched.name},
            "watchedGvk": {"group": gvk.group, "version": gvk.version, "kind": gvk.kind},
        }
        headers = {"X-Forwarded-Client-Cert": f'Cert="{self._certificate}"'}
        try:
            async with self._session.post(self.url, json=body, headers=headers) as answer:
                return answer.status == 200
        except (aiohttp.ClientError, TimeoutError):
            return False
