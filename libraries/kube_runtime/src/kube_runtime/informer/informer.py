"""A cache of one kind of object that follows the API server and reports changes.

List, then watch from there; when the watch ends, watch on from the last version seen; when that version is too old, or
beyond that of a restored server, list again and report the difference. A list whose pages expire before the last one is
requested as a whole. A stream that breaks, is refused or falls silent is opened again after a growing pause, and the
cache stays readable meanwhile.

Guaranteed: after the last change of an object, a handler gets its newest state at least once, and never an older state
after a newer one. Not guaranteed: that a handler gets every state in between.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Generic, TypeVar

from kube_runtime.backoff import Backoff
from kube_runtime.client.client import Client
from kube_runtime.client.decoding import UnreadableDeletion, decoding_for
from kube_runtime.exceptions import (
    Gone,
    KubeError,
    NotServed,
    ObjectUnreadable,
    ResponseInvalid,
    ServerUnavailable,
    TooManyRequests,
    TriggerMistaken,
    without_frames,
)
from kube_runtime.informer.cache import Cache, Index
from kube_runtime.informer.own_writes import OwnWrites
from kube_runtime.metrics import InformerMetrics, RuntimeMetrics
from kube_runtime.resource import ObjectKey, ObjectList, Resource, version_number

T = TypeVar("T")
log = logging.getLogger(__name__)

MAX_STALE_LISTS = 5
STEADY_SECONDS = 5.0
RESYNC_BATCH = 100
MAX_RETRY_AFTER_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """One object as it was (None: it is new) and as it is (None: it is gone).

    Where both are the same object nothing changed: it is the periodic resync. `may_be_restored`: it changed
    while nothing was watched, as a new list shows, so that the server may have been restored from a backup. What was
    concluded from it is open: it may be older, another object of that name, or other content of the same `generation`.
    """

    old: T | None
    new: T | None
    may_be_restored: bool = False

    @property
    def is_resync(self) -> bool:
        """Tell whether nothing changed."""
        return self.old is self.new


Handler = Callable[[Change[T]], None]


class Informer(Generic[T]):
    """Holds the objects of a resource, or a selection of them, as the API server has them.

    `cache` is what the stream has shown. `get`, `list` and `by_index` show the same with this process's own writes
    that the stream has not reached yet; `wrote` remembers those. `resync_seconds` repeats every object to the handlers
    once in that time, evenly spread.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource[T],
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        indexes: Iterable[Index[T]] = (),
        resync_seconds: float | None = None,
        page_size: int = 500,
        backoff: Backoff | None = None,
        metrics: RuntimeMetrics | None = None,
    ) -> None:
        self.resource = resource
        self.cache: Cache[T] = Cache(indexes)
        self.last_error: KubeError | None = None
        self._own: OwnWrites[T] = OwnWrites(resource, self.cache)
        self._client = client
        self._selected = {"namespace": namespace, "label_selector": label_selector, "field_selector": field_selector}
        self._resync_seconds = resync_seconds
        self._page_size = page_size
        self._metrics = metrics.informer(resource.plural_name) if metrics else InformerMetrics()
        self._metrics.objects = self.cache.__len__
        self._decoding = decoding_for(resource.type)
        self._handlers: list[Handler[T]] = []
        self._version = ""
        self._highest = 0
        self._stale_lists = 0
        self._was_silent = False
        self._pages_expire = False
        self._synced = asyncio.Event()
        self._backoff = backoff or Backoff(base=0.1, max=2.5)

    @property
    def synced(self) -> bool:
        """Tell whether the cache has held everything once."""
        return self._synced.is_set()

    async def wait_synced(self, timeout_seconds: float | None = None) -> None:
        """Wait until the cache holds everything. Raises TimeoutError, from the last failure if there was one."""
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._synced.wait()
        except TimeoutError:
            message = f"{self.resource.plural_name} could not be listed within {timeout_seconds or 0:g} s"
            why = "" if self.last_error is None else f": {_advised(self.last_error)}"
            raise TimeoutError(message + why) from self.last_error

    def add_index(self, index: Index[T]) -> None:
        """Declare an index, also of the objects that are here already. Raises ValueError if its name is taken."""
        self.cache.add_index(index)
        self._own.add_index(index)

    def get(self, key: ObjectKey) -> T | None:
        """Return the newest known state of an object, own writes included; None where there is none."""
        return self._own.get(key)

    def list(self) -> tuple[T, ...]:
        """Return all objects in their newest known state."""
        return self._own.list()

    def by_index(self, index: Index[T] | str, value: str) -> tuple[T, ...]:
        """Return the objects that an index has under a value, in their newest known state.

        Raises KeyError for an index that was not declared.
        """
        return self._own.by_index(index if isinstance(index, str) else index.name, value)

    def wrote(self, answer: T) -> None:
        """Remember the API server's answer to a create, update, patch or apply of this process.

        The object has to be one that this informer selects. It counts until the stream reaches its version.
        """
        self._own.wrote(answer)

    def deleted(self, key: ObjectKey, resource_version: str) -> None:
        """Remember that an object is gone, and that its last known version was this one."""
        self._own.deleted(key, version_number(resource_version))

    def is_own_write(self, item: T) -> bool:
        """Tell whether an object is exactly as this process wrote it last."""
        return self._own.is_last(self.resource.key_of(item), version_number(self.resource.version_of(item)))

    def on_change(self, handler: Handler[T], *, replay: bool = True) -> None:
        """Call a function with each change, on the event loop; at once for each object already there.

        It must not block. What it raises is logged and does not stop the informer, but for TriggerMistaken. Without
        `replay` it is called for changes from now on.
        """
        self._handlers.append(handler)
        for each in self.cache.list() if replay else ():
            self._notify_one(handler, Change(None, each))

    async def run(self) -> None:
        """Follow the resource until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            if self._resync_seconds is not None:
                tasks.create_task(self._resync(self._resync_seconds))
            while True:
                await self._follow_once()

    async def _follow_once(self) -> None:
        """List where needed, then watch to the end of one stream; pause unless the watch went well for a while."""
        clock = asyncio.get_running_loop().time
        watching_since: float | None = None
        retry_after = 0.0
        try:
            if self._version and self._was_silent:
                await self._check_version()
            if not self._version:
                await self._list()
            watching_since = clock()
            await self._watch()
        except Gone:
            self._pages_expire = not self._version
            what = "pages of a list" if self._pages_expire else "watch"
            log.info("the %s of %s is too old, listing again", what, self.resource.plural_name)
            self._version = ""
        except KubeError as error:
            self._note_failure(error)
            retry_after = _retry_after(error)
        if watching_since is not None and clock() - watching_since >= STEADY_SECONDS:
            self._backoff.reset()
            if self.last_error is None and self._version:
                return
        await asyncio.sleep(max(self._backoff.next(), retry_after))

    def _note_failure(self, error: KubeError) -> None:
        if str(error) != str(self.last_error):
            log.warning("list or watch of %s failed: %s", self.resource.plural_name, _advised(error))
        self.last_error = without_frames(error)
        self._metrics.failures += 1
        if isinstance(error, ResponseInvalid):
            self._version = ""  # a line that can't be decoded would come again from here

    async def _list(self) -> None:
        """Read everything and report what differs from the cache."""
        seen: set[ObjectKey] = set()
        unreadable: list[ObjectUnreadable] = []
        deleted = self._own.deletions()  # answered before the list: it shows whether they are there after a restore
        version = ""
        self._metrics.lists += 1
        async for page in self._pages(unreadable.append, 0 if self._pages_expire else self._page_size):
            if not version:
                self._refuse_stale(page.resource_version)
                self._highest = max(self._highest, version_number(page.resource_version))  # even if the list breaks
            version = page.resource_version
            for item in page.items:
                if deleted and (key := self.resource.key_of(item)) in deleted:
                    self._own.restored(key)
                seen.add(self._put(item, as_of=version, is_listed=True))
        for error in unreadable:
            seen.add(ObjectKey(*error.identity[:2]))
            self._note_unreadable(error)
        self._pages_expire = False
        self._advance(version)
        for key in set(self.cache.keys()) - seen:
            self._remove(key)
        self.last_error = None
        self._synced.set()

    async def _check_version(self) -> None:
        """Have everything listed by a server that lost the last version seen: it reports nothing before it is there."""
        page = await anext(self._pages(lambda _: None, page_size=1))  # its version alone matters
        if version_number(page.resource_version) < version_number(self._version):
            self._version = ""
        self._was_silent = False

    def _pages(self, unreadable: Callable[[ObjectUnreadable], None], page_size: int) -> AsyncIterator[ObjectList[T]]:
        return self._client.pages(self.resource, page_size=page_size, unreadable=unreadable, **self._selected)

    def _refuse_stale(self, version: str) -> None:
        """Raise ResponseInvalid for a list from the past; not for ever, as a server may be restored from a backup."""
        if version_number(version) >= self._highest:
            self._stale_lists = 0
        elif self._stale_lists < MAX_STALE_LISTS:
            self._stale_lists += 1
            raise ResponseInvalid(
                f"the list is of version {version}, older than {self._highest}, which was seen before"
            )
        else:
            log.warning("the resourceVersion of %s decreased; listing again", self.resource.plural_name)
            self._stale_lists = 0
            self._highest = 0
            self._own.drop_all()

    async def _watch(self) -> None:
        """Follow one stream to its end."""
        self._metrics.watches += 1
        lines = self._client.watch_lines(self.resource, resource_version=self._version, **self._selected)
        self._was_silent = True
        async with aclosing(lines):
            async for batch in lines:
                self._was_silent = False
                for line in batch:
                    self._take_line(line)
                self._backoff.reset()
                self.last_error = None

    def _take_line(self, line: bytes) -> None:
        """Take one line of the watch. The position advances first, so handlers see no own write that was passed."""
        try:
            event = self._decoding.event(line)
        except ObjectUnreadable as error:
            self._note_unreadable(error)
            self._advance(error.identity[2])
            if isinstance(error, UnreadableDeletion):
                self._remove(ObjectKey(*error.identity[:2]))
            return
        item, version = event.object, event.resource_version
        self._advance(version)
        if item is None:
            return
        self._metrics.events += 1
        if event.type != "DELETED":
            self._put(item, as_of=version)
        elif not self._is_newer_known(key := self.resource.key_of(item), version):
            self._remove(key)

    def _advance(self, version: str) -> None:
        self._version, position = version, version_number(version)
        self._highest = max(self._highest, position)
        self._own.advance(position)

    def _put(self, new: T, *, as_of: str, is_listed: bool = False) -> ObjectKey:
        """Take an object unless the cache has it, or a later one. Returns its key.

        `as_of` is the version at which it was so: of the list that shows it, or its own in a watch. After a restore of
        etcd the cache may have a later version of an object than the list, whose own version is beyond both.
        """
        resource = self.resource
        key = resource.key_of(new)
        known = self.cache.get(key)
        if known is not None:
            is_same = resource.uid_of(new) == resource.uid_of(known)
            if (is_same and resource.version_of(new) == resource.version_of(known)) or self._is_newer_known(key, as_of):
                return key
        self.cache.put(key, new)
        self._own.shown(key, new)
        self._notify(Change(known, new, may_be_restored=is_listed and known is not None))
        return key

    def _is_newer_known(self, key: ObjectKey, version: str) -> bool:
        """Tell whether the cache holds a state after this version; never after its resourceVersion decreased."""
        known = self.cache.get(key)
        return (
            known is not None
            and version_number(version) < version_number(self.resource.version_of(known)) <= self._highest
        )

    def _remove(self, key: ObjectKey) -> None:
        old = self.cache.remove(key)
        self._own.shown(key, None)
        if old is not None:
            self._notify(Change(old, None))

    async def _resync(self, seconds: float) -> None:
        """Repeat every object to the handlers once in so many seconds, a few at a time."""
        while True:
            keys = self.cache.keys()
            batches = max(1, -(-len(keys) // RESYNC_BATCH))
            for start in range(0, batches * RESYNC_BATCH, RESYNC_BATCH):
                await asyncio.sleep(seconds / batches)
                for key in keys[start : start + RESYNC_BATCH]:
                    known = self.cache.get(key)
                    if known is not None:
                        self._notify(Change(known, known))

    def _note_unreadable(self, error: ObjectUnreadable) -> None:
        self._metrics.unreadable += 1
        log.error("%s: %s; its last readable state is kept", self.resource.plural_name, error)

    def _notify(self, change: Change[T]) -> None:
        for handler in self._handlers:
            self._notify_one(handler, change)

    def _notify_one(self, handler: Handler[T], change: Change[T]) -> None:
        try:
            handler(change)
        except TriggerMistaken:
            raise
        except Exception:
            log.exception("a handler of %s failed", self.resource.plural_name)


def _advised(error: KubeError) -> str:
    """Return the text of an error, with what to do about it."""
    return (
        f"{error}; is its CRD applied? kube-runtime crds prints those of operators"
        if isinstance(error, NotServed)
        else str(error)
    )


def _retry_after(error: KubeError) -> float:
    """Return the pause that the server asks for, within a limit."""
    asked = error.retry_after if isinstance(error, TooManyRequests | ServerUnavailable) else None
    return min(asked or 0.0, MAX_RETRY_AFTER_SECONDS)
