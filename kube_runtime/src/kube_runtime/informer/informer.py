"""A cache of one kind of object that follows the API server, and tells what changes.

List, then watch from there; when the watch ends, watch on from the last version heard of; when that version is too
old, list again and tell the difference. A list whose pages expire before the last one is asked for as a whole. A
stream that breaks, is refused or falls silent is opened again after a growing pause, and what the cache holds stays
available meanwhile.

What is there can also come as the beginning of the watch itself (`initial_events`), where the API server offers that.
It is off unless asked for: 5,000 objects of 4 kB took twice as long as in pages and nearly three times the server's
CPU, and saved 3 of 25 MiB at the peak (docs/decisions/004-lists-in-pages.md).

What is promised: after the last change of an object, a handler hears of its newest state at least once, and never of
an older one after a newer one. What is not: that every state in between is heard of.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Generic, TypeVar

from kube_runtime.backoff import Backoff
from kube_runtime.client.client import Client
from kube_runtime.client.decoding import UnreadableDeletion, WatchEvent, decoding_for
from kube_runtime.exceptions import (
    ApiError,
    BadRequest,
    Gone,
    Invalid,
    KubeError,
    ObjectUnreadable,
    ResponseInvalid,
    ServerUnavailable,
    TooManyRequests,
    WatchSilent,
)
from kube_runtime.informer.cache import Cache, Index
from kube_runtime.metrics import InformerMetrics, RuntimeMetrics
from kube_runtime.resource import ObjectKey, Resource

__all__ = ["Change", "Informer"]

T = TypeVar("T")
log = logging.getLogger(__name__)

STALE_LISTS = 5
STEADY_SECONDS = 5.0
REMINDERS_AT_ONCE = 100
MOST_ASKED_PAUSE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """One object as it was (None: it is new) and as it is (None: it is gone).

    Where both are the same object nothing changed, and it is the periodic reminder that it is there.
    """

    old: T | None
    new: T | None

    @property
    def is_resync(self) -> bool:
        """Tell whether this is only a reminder."""
        return self.old is self.new


Handler = Callable[[Change[T]], None]


class Informer(Generic[T]):
    """Holds the objects of a resource, or of a part of it, as the API server has them.

    `indexes` name the ways, besides by key, in which the cache is asked. `resync_seconds` has handlers reminded of
    every object once in so long, evenly spread. `initial_events` has the server stream what is there instead of being
    asked for pages; where it refuses, it is asked for pages. `metrics` and `page_size` speak for themselves.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource[T],
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        indexes: Mapping[str, Index[T]] = {},
        resync_seconds: float | None = None,
        page_size: int = 500,
        initial_events: bool = False,
        backoff: Backoff | None = None,
        metrics: RuntimeMetrics | None = None,
    ) -> None:
        self.resource = resource
        self.cache: Cache[T] = Cache(indexes)
        self.last_error: KubeError | None = None
        self._client = client
        self._namespace = namespace
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._resync_seconds = resync_seconds
        self._page_size = page_size
        self._offers_initial_events = initial_events
        self._asks_for_pages = not initial_events
        self._streamed: set[ObjectKey] | None = None
        self._metrics = metrics.informer(resource.plural_name) if metrics else InformerMetrics()
        self._metrics.objects = self.cache.__len__
        self._decoding = decoding_for(resource.type)
        self._handlers: list[Handler[T]] = []
        self._version = ""
        self._highest = 0
        self._stale_lists = 0
        self._pages_expire = False
        self._synced = asyncio.Event()
        self._backoff = backoff or Backoff(base=0.1, most=2.5)

    @property
    def synced(self) -> bool:
        """Tell whether the cache has held everything once."""
        return self._synced.is_set()

    async def wait_synced(self, timeout_seconds: float) -> None:
        """Wait until the cache holds everything. Raises TimeoutError, from the last failure if there was one."""
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._synced.wait()
        except TimeoutError:
            message = f"{self.resource.plural_name} could not be listed within {timeout_seconds:g} s"
            raise TimeoutError(message) from self.last_error

    def on_change(self, handler: Handler[T], *, replay: bool = True) -> None:
        """Have a function called with each change, on the event loop; at once for each object already there.

        It must not block. What it raises is logged and does not stop the informer. Without `replay` it hears of what
        changes from now on.
        """
        self._handlers.append(handler)
        for each in self.cache.list() if replay else ():
            self._tell_one(handler, Change(None, each))

    async def run(self) -> None:
        """Follow the resource until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            if self._resync_seconds is not None:
                tasks.create_task(self._remind(self._resync_seconds))
            while True:
                await self._follow_once()

    async def _follow_once(self) -> None:
        """List if that is needed, then watch to the end of one stream; pause unless the watch went well for a while."""
        clock = asyncio.get_running_loop().time
        watching_since: float | None = None
        asked_pause = 0.0
        self._streamed = None
        try:
            if not self._version and self._asks_for_pages:
                await self._list()
            watching_since = clock()
            await self._watch()
        except (Invalid, BadRequest) as error:
            self._note_refusal(error)
        except Gone:
            self._pages_expire = not self._version
            what = "pages of a list" if self._pages_expire else "watch"
            log.info("the %s of %s is too old, listing again", what, self.resource.plural_name)
            self._version = ""
        except KubeError as error:
            self._note_failure(error)
            asked_pause = _asked_pause(error)
        if watching_since is not None and clock() - watching_since >= STEADY_SECONDS:
            self._backoff.reset()
            if self.last_error is None and self._version:
                return
        await asyncio.sleep(max(self._backoff.next(), asked_pause))

    def _note_refusal(self, error: ApiError) -> None:
        """Take note that the server does not understand what it was asked."""
        if self._streamed is None:
            self._note_failure(error)
            return
        log.info("%s can't be streamed by this server, asking for pages: %s", self.resource.plural_name, error)
        self._offers_initial_events = False
        self._asks_for_pages = True

    def _note_failure(self, error: KubeError) -> None:
        self.last_error = error
        if self._streamed is not None:
            self._asks_for_pages = True  # whatever kept it from telling everything, pages come to an end
        self._metrics.failures += 1
        if isinstance(error, WatchSilent | ResponseInvalid):
            # A silent server may have lost its past, and would never tell of what is new to it; a line that can't be
            # read would come again from here.
            self._version = ""
        log.warning("%s can't be followed: %s", self.resource.plural_name, error)

    async def _list(self) -> None:
        """Read everything and tell what differs from the cache."""
        self._metrics.lists += 1
        seen: set[ObjectKey] = set()
        unreadable: list[ObjectUnreadable] = []
        version = ""
        pages = self._client.pages(
            self.resource,
            self._namespace,
            page_size=0 if self._pages_expire else self._page_size,
            unreadable=unreadable.append,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
        )
        async for page in pages:
            if not version:
                self._refuse_stale(page.resource_version)
                self._highest = max(self._highest, _number(page.resource_version))  # seen, even if the list breaks
            version = page.resource_version
            for item in page.items:
                key = self.resource.key_of(item)
                seen.add(key)
                self._put(key, item)
        for error in unreadable:
            seen.add(ObjectKey(*error.identity[:2]))
            self._note_unreadable(error)
        self._pages_expire = False
        self._asks_for_pages = not self._offers_initial_events
        self._complete(seen, version)

    def _complete(self, seen: set[ObjectKey], version: str) -> None:
        """Take note that everything that is there was seen: what was not is gone."""
        for key in set(self.cache.keys()) - seen:
            self._remove(key)
        self._advance(version)
        self.last_error = None
        self._synced.set()

    def _refuse_stale(self, version: str) -> None:
        """Raise ResponseInvalid for a list from the past; not for ever, for a server may be restored from a backup."""
        if _number(version) >= self._highest:
            self._stale_lists = 0
        elif self._stale_lists < STALE_LISTS:
            self._stale_lists += 1
            raise ResponseInvalid(
                f"the list is of version {version}, older than {self._highest}, which was seen before"
            )
        else:
            log.warning("%s went back in time, following it there", self.resource.plural_name)
            self._stale_lists = 0
            self._highest = 0

    async def _watch(self) -> None:
        """Follow one stream to its end. Without a version to begin at it begins with what is there."""
        self._metrics.watches += 1
        self._streamed = None if self._version else set()
        self._metrics.lists += self._streamed is not None
        lines = self._client.watch_lines(
            self.resource,
            self._namespace,
            resource_version=self._version,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            initial_events=self._streamed is not None,
        )
        async with aclosing(lines):
            async for batch in lines:
                for line in batch:
                    self._take_line(line)
                self._backoff.reset()
                if self._streamed is None:
                    self.last_error = None
        if self._streamed is not None:
            raise ResponseInvalid("the watch ended before it had told what is there")

    def _take_line(self, line: bytes) -> None:
        try:
            event = self._decoding.event(line)
        except ObjectUnreadable as error:
            self._note_unreadable(error)
            key = ObjectKey(*error.identity[:2])
            if isinstance(error, UnreadableDeletion):
                self._remove(key)
            self._told_of(key, error.identity[2])
            return
        if isinstance(event, WatchEvent):
            self._take_bookmark(event)
            return
        self._metrics.events += 1
        kind, item = event
        key, version = self.resource.key_of(item), self.resource.version_of(item)
        if kind != "DELETED":
            self._put(key, item)
        elif not self._is_newer_known(key, version):
            self._remove(key)
        self._told_of(key, version)

    def _take_bookmark(self, mark: WatchEvent[T]) -> None:
        if self._streamed is None:
            self._advance(mark.resource_version)
            return
        if not mark.initial_end:
            raise ResponseInvalid("the server does not say where the objects end that a watch begins with")
        if _number(mark.resource_version) < self._highest:
            raise ResponseInvalid(f"the watch begins with the past: version {mark.resource_version}")
        seen, self._streamed = self._streamed, None
        self._complete(seen, mark.resource_version)

    def _told_of(self, key: ObjectKey, version: str) -> None:
        """Go on from a version; but while a watch tells what is there, it can only be begun again."""
        if self._streamed is None:
            self._advance(version)
        else:
            self._streamed.add(key)
            self._highest = max(self._highest, _number(version))

    def _advance(self, version: str) -> None:
        self._version = version
        self._highest = max(self._highest, _number(version))

    def _put(self, key: ObjectKey, new: T) -> None:
        known, resource = self.cache.get(key), self.resource
        if known is not None:
            version = resource.version_of(new)
            if version == resource.version_of(known) and resource.uid_of(known) == resource.uid_of(new):
                return
            if self._is_newer_known(key, version):
                return
        self.cache.put(key, new)
        self._tell(Change(known, new))

    def _is_newer_known(self, key: ObjectKey, version: str) -> bool:
        """Tell whether the cache holds a later state; never after the server went back in time."""
        known = self.cache.get(key)
        return known is not None and _number(version) < _number(self.resource.version_of(known)) <= self._highest

    def _remove(self, key: ObjectKey) -> None:
        old = self.cache.remove(key)
        if old is not None:
            self._tell(Change(old, None))

    async def _remind(self, seconds: float) -> None:
        """Tell handlers of every object once in so many seconds, a few at a time."""
        while True:
            keys = self.cache.keys()
            batches = max(1, -(-len(keys) // REMINDERS_AT_ONCE))
            for start in range(0, batches * REMINDERS_AT_ONCE, REMINDERS_AT_ONCE):
                await asyncio.sleep(seconds / batches)
                for key in keys[start : start + REMINDERS_AT_ONCE]:
                    known = self.cache.get(key)
                    if known is not None:
                        self._tell(Change(known, known))

    def _note_unreadable(self, error: ObjectUnreadable) -> None:
        self._metrics.unreadable += 1
        log.error("%s: %s; what was known of it before is kept", self.resource.plural_name, error)

    def _tell(self, change: Change[T]) -> None:
        for handler in self._handlers:
            self._tell_one(handler, change)

    def _tell_one(self, handler: Handler[T], change: Change[T]) -> None:
        try:
            handler(change)
        except Exception:
            log.exception("a handler of %s failed", self.resource.plural_name)


def _asked_pause(error: KubeError) -> float:
    """Return for how many seconds the server wants to be left alone, as far as that is believed."""
    asked = error.retry_after if isinstance(error, TooManyRequests | ServerUnavailable) else None
    return min(asked or 0.0, MOST_ASKED_PAUSE_SECONDS)


def _number(version: str) -> int:
    """Return a resource version as the number that it is; 0 for one that is none, which is then never compared."""
    return int(version) if version.isdecimal() else 0
