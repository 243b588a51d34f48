"""Watchers of simulated clusters: each answers a dry run of the canary by a signed event, as the real one does."""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime

import aiohttp
import msgspec

from kube_simulation import Answer, ApiRequest, Rule
from kyma_demo.rollout.senders import EventSigner
from lifecycle_manager.skr.watcher import CANARY, CANARY_HEARTBEAT, HEARTBEAT
from lifecycle_manager.skr_webhook.canary import ANNOTATION
from lifecycle_manager_api import Watched, WatchEvent


class SimulatedWatcher(Rule):
    """Sends an event for each canary, on one connection that it keeps; `answered` counts those that were accepted."""

    def __init__(self, secret: Mapping[str, str], port: int) -> None:
        self.url = f"https://127.0.0.1:{port}/v2/lifecycle-manager/event"
        self.answered = self.sequence = 0
        self._sender = EventSigner.of(secret)
        self._session: aiohttp.ClientSession | None = None
        self._answer: Answer | None = None
        self._sending: set[asyncio.Task[None]] = set()

    async def around(self, request: ApiRequest, proceed: Callable[[], Awaitable[Answer]]) -> Answer:
        if request.name != CANARY.name or "dryRun" not in request.query:
            return await proceed()
        self.send(msgspec.json.decode(request.body)["metadata"]["annotations"][ANNOTATION])
        if self._answer is None:
            self._answer = await proceed()
        return self._answer  # of a length that stays, without what it costs this process

    def send(self, challenge: str = "") -> None:
        """Send the answer to a canary; without a challenge a heartbeat."""
        task = asyncio.ensure_future(self._send(challenge))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send(self, challenge: str) -> None:
        now = time.time()
        self.sequence += 1
        event = WatchEvent(
            watched=Watched(name=CANARY_HEARTBEAT if challenge else ""),
            id=secrets.token_hex(16),
            operation=HEARTBEAT,
            epoch="7f3a9c0d1e2b4f56",
            sequence=self.sequence,
            observed_at=datetime.fromtimestamp(now, UTC).isoformat().replace("+00:00", "Z"),
            traceparent=f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-00",
            challenge=challenge,
            counters={"pending": 0, "overflows": 0},
        )
        body, headers = self._sender.signed(self.url, event)
        if self._session is None:
            connector = aiohttp.TCPConnector(keepalive_timeout=75, limit=1, ssl=self._sender.tls)
            self._session = aiohttp.ClientSession(connector=connector)
        with suppress(aiohttp.ClientError):  # while another program starts
            async with self._session.post(self.url, data=body, headers=headers) as answer:
                self.answered += answer.status == 200
