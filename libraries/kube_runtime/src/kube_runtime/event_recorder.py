"""Kubernetes Events: what a controller did, where `kubectl describe` shows it.

Recording never waits and never fails: Events are sent in the background, repeated ones become one Event with a count,
and when the API server can't keep up the newest are dropped and counted. So are those about an object that has very
many different ones: what users of another cluster write may be in their notes, and etcd keeps each for an hour.
"""

import asyncio
import logging
import uuid
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar

from kube_runtime.client.client import Client
from kube_runtime.exceptions import KubeError, NotFound
from kube_runtime.rate_limit import RateLimits
from kube_runtime.resource import JsonObject, Resource

T = TypeVar("T")
log = logging.getLogger(__name__)

EVENTS: Resource[JsonObject] = Resource.dynamic("events.k8s.io", "v1", "Event", "events", namespaced=True)
MAX_NOTE_BYTES = 1_000
MAX_NAME_LENGTH = 200
EVENTS_AT_ONCE, SECONDS_FOR_ANOTHER = 50, 30.0
"""How many different Events about one object are sent at once, and on average."""

_Key = tuple[str, ...]


@dataclass(eq=False, slots=True)
class _Series:
    document: JsonObject
    began: float
    count: int = 1
    sent_count: int = 0
    sent_at: float = 0.0
    last_seen: str = ""


class EventRecorder:
    """Records Events about objects of one cluster. `run` sends them, until cancelled.

    - `controller`, `instance`: the reporting controller and its replica
    - `capacity`: how many different Events may wait to be sent
    - `series_seconds`: how often a growing count is sent
    - `forget_seconds`: after how long a repeated Event is a new one
    """

    def __init__(
        self,
        client: Client,
        *,
        controller: str,
        instance: str,
        capacity: int = 1_000,
        series_seconds: float = 30.0,
        forget_seconds: float = 360.0,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.dropped = 0
        self._client = client
        self._controller = controller
        self._instance = instance[:128]
        self._capacity = capacity
        self._series_seconds = series_seconds
        self._forget_seconds = forget_seconds
        self._now = now
        self._series: OrderedDict[_Key, _Series] = OrderedDict()
        self._unsent: OrderedDict[_Key, _Series] = OrderedDict()
        self._arrived = asyncio.Event()
        self._limits = RateLimits[str](1 / SECONDS_FOR_ANOTHER, EVENTS_AT_ONCE)

    def record(
        self,
        resource: Resource[T],
        item: T,
        reason: str,
        note: str,
        *,
        type: Literal["Normal", "Warning"] = "Normal",  # noqa: A002 - as the field is called
        action: str = "Reconcile",
    ) -> None:
        """Record an Event about an object. The reason is one word in CamelCase, the note is for people."""
        key = (resource.uid_of(item), str(resource.key_of(item)), resource.kind, type, reason, action, note)
        now = asyncio.get_running_loop().time()
        known = self._series.get(key)
        if known is None or now - known.began > self._forget_seconds:
            if not self._limits.grants(key[0] or key[1], now):
                self.dropped += 1
                return
            document = self._document(resource, item, reason, note, type, action)
            known = _Series(document, began=now)
            self._series[key] = known
            self._series.move_to_end(key)  # the oldest are first
            self._forget_old(now)
            self._send_soon(key, known)
            return
        known.count += 1
        known.last_seen = self._time()
        if known.count == 2 or now - known.sent_at >= self._series_seconds:
            self._send_soon(key, known)

    async def write_to(
        self,
        client: Client,
        resource: Resource[T],
        item: T,
        reason: str,
        note: str,
        *,
        type: Literal["Normal", "Warning"] = "Normal",  # noqa: A002 - as the field is called
        action: str = "Reconcile",
    ) -> None:
        """Write an Event to another cluster, at once and without aggregation.

        Raises nothing: an Event that can't be written is dropped.
        """
        document = self._document(resource, item, reason, note, type, action)
        try:
            await client.create(EVENTS, document, document["metadata"]["namespace"], field_manager=self._controller)
        except KubeError as error:
            self.dropped += 1
            log.warning("Event not written to %s: %s", client.server, error)

    async def run(self) -> None:
        """Send recorded Events until cancelled; those that wait then are sent first, within two seconds."""
        try:
            while True:
                await self._arrived.wait()
                await self._send_all()
        finally:
            await self._send_last()

    def _send_soon(self, key: _Key, series: _Series) -> None:
        if key not in self._unsent and len(self._unsent) >= self._capacity:
            self.dropped += 1
            return
        self._unsent[key] = series
        self._arrived.set()

    async def _send_all(self) -> None:
        self._arrived.clear()
        while self._unsent:
            _, series = self._unsent.popitem(last=False)
            try:
                await self._send(series)
            except KubeError as error:
                self.dropped += 1
                log.warning("Event not recorded: %s", error)

    async def _send_last(self) -> None:
        for key, series in self._series.items():
            if series.count > series.sent_count:
                self._unsent.setdefault(key, series)  # also one whose request was cancelled by the stop
        try:
            async with asyncio.timeout(2.0):
                await self._send_all()
        except TimeoutError:
            self.dropped += len(self._unsent)

    async def _send(self, series: _Series) -> None:
        series.sent_at = asyncio.get_running_loop().time()
        count, metadata = series.count, series.document["metadata"]
        repeated: JsonObject = {"series": {"count": count, "lastObservedTime": series.last_seen}} if count > 1 else {}
        if series.sent_count:
            try:
                await self._client.merge_patch(EVENTS, metadata["name"], repeated, metadata["namespace"])
            except NotFound:
                series.sent_count = 0  # the server has forgotten it, as it does after an hour
        if not series.sent_count:
            document = series.document | repeated
            await self._client.create(EVENTS, document, metadata["namespace"], field_manager=self._controller)
        series.sent_count = count

    def _forget_old(self, now: float) -> None:
        while self._series:
            key, oldest = next(iter(self._series.items()))
            if now - oldest.began <= self._forget_seconds and len(self._series) <= 2 * self._capacity:
                return
            del self._series[key]

    def _document(
        self, resource: Resource[Any], item: Any, reason: str, note: str, kind: str, action: str
    ) -> JsonObject:
        namespace, name = resource.key_of(item)
        return {
            "metadata": {
                "name": f"{name[:MAX_NAME_LENGTH]}.{uuid.uuid4().hex[:16]}",
                "namespace": namespace or "default",
            },
            "eventTime": self._time(),
            "type": kind,
            "reason": reason[:128],
            "action": action[:128],
            "note": note.encode()[:MAX_NOTE_BYTES].decode(errors="ignore"),
            "reportingController": self._controller,
            "reportingInstance": self._instance,
            "regarding": {
                "apiVersion": resource.api_version,
                "kind": resource.kind,
                "name": name,
                "namespace": namespace,
                "uid": resource.uid_of(item),
                "resourceVersion": resource.version_of(item),
            },
        }

    def _time(self) -> str:
        return self._now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
