"""The objects of modules, fetched and parsed once for all clusters.

Objects are cached up to a size by the link or the repository, the digest, and the credentials that gave access to a
layer, so nobody gets a private layer by its digest alone. Concurrent requests for one source wait for one download, and
a failure is remembered, so thousands of Manifests do not repeat it. Waiting is bounded: otherwise a slow registry would
occupy all workers. A restart fetches each source again, which takes seconds for a whole catalog.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from kyma_oci import Layer, LoginFor, Registries, SourceError, SourceUnreachable
from kyma_oci.references import content_digest
from lifecycle_manager.module_sources.downloads import DownloadFailed
from lifecycle_manager.module_sources.parsing import ModuleObjects, ObjectsInvalid, objects_in
from lifecycle_manager.module_sources.references import Source

MAX_TEXT_BYTES = 32 * 1024 * 1024
MAX_FAILURES = 1_000
MAX_WAIT_SECONDS = 3.0

_Asked = tuple[Source, str]
"""A source and the name of the credentials it is requested with."""


class SourceAwaited(SourceError):
    """It is being fetched for another Manifest, which takes too long to wait for."""

    again_after_seconds = 5.0


class LinkChanged(SourceError):
    """The file behind a link is another one than when it was read first."""

    again_after_seconds = 600.0


@dataclass(eq=False)
class ObjectStore:
    """Returns the objects of a source. `fetch` returns the text behind a link, and raises DownloadFailed.

    A source that is being fetched already is waited for up to `max_wait_seconds`; after one such timeout, nobody waits
    for that download any more.
    """

    registries: Registries
    fetch: Callable[[str], Awaitable[str]]
    max_text_bytes: int = MAX_TEXT_BYTES
    max_wait_seconds: float = MAX_WAIT_SECONDS
    clock: Callable[[], float] = time.monotonic
    _known: OrderedDict[_Asked, ModuleObjects] = field(default_factory=OrderedDict, init=False)
    _failed: OrderedDict[_Asked, tuple[float, SourceError]] = field(default_factory=OrderedDict, init=False)
    _slow: set[_Asked] = field(default_factory=set, init=False)
    _busy: WeakValueDictionary[_Asked, asyncio.Lock] = field(default_factory=WeakValueDictionary, init=False)

    async def objects(self, source: Source, login_for: LoginFor, whose: str = "") -> ModuleObjects:
        """Return the objects of a source. Raises SourceError.

        `whose` names the credentials of `login_for`: what fails with some may work with others.
        """
        asked = source, whose if isinstance(source, Layer) else ""
        if (known := self._recent(asked)) is not None:
            return known
        async with self._turn(asked):
            if (known := self._recent(asked)) is not None:
                return known
            self._raise_if_failed_lately(asked)
            try:
                found = await self._read(asked, login_for)
            except SourceError as error:
                self._failed[asked] = (self.clock() + error.again_after_seconds, error)
                while len(self._failed) > MAX_FAILURES:
                    self._failed.popitem(last=False)
                raise
        self._failed.pop(asked, None)
        return found

    @asynccontextmanager
    async def _turn(self, asked: _Asked) -> AsyncIterator[None]:
        """Lock a source while it is fetched. Raises SourceAwaited where another download of it takes long."""
        lock = self._busy.setdefault(asked, asyncio.Lock())
        try:
            async with asyncio.timeout(0 if asked in self._slow and lock.locked() else self.max_wait_seconds):
                await lock.acquire()
        except TimeoutError:
            if lock.locked():
                self._slow.add(asked)
            raise SourceAwaited(f"{asked[0]} is being fetched, which takes long") from None
        try:
            yield
        finally:
            self._slow.discard(asked)
            lock.release()

    def _recent(self, key: _Asked) -> ModuleObjects | None:
        known = self._known.get(key)
        if known is not None:
            self._known.move_to_end(key)
        return known

    def _raise_if_failed_lately(self, asked: _Asked) -> None:
        until, error = self._failed.get(asked, (0.0, None))
        if error is not None and self.clock() < until:
            raise error.with_traceback(None)

    async def _read(self, asked: _Asked, login_for: LoginFor) -> ModuleObjects:
        source, _ = asked
        found = await objects_in(source, source.digest, await self._content(source, login_for))
        if not found.objects:  # a mistake: all objects of the module would be pruned
            raise ObjectsInvalid(f"{source} holds no objects; of an archive .yaml, .yml and .json files are read")
        self._known[asked] = found
        while len(self._known) > 1 and sum(each.size for each in self._known.values()) > self.max_text_bytes:
            self._known.popitem(last=False)
        return found

    async def _content(self, source: Source, login_for: LoginFor) -> bytes:
        if isinstance(source, Layer):
            return await self.registries.pull(source, await login_for(source.repository))
        try:
            content = (await self.fetch(source.url)).encode()
        except DownloadFailed as error:
            raise SourceUnreachable(str(error)) from None
        if (digest := content_digest(content)) != source.digest:
            raise LinkChanged(f"{source} is {digest} by now, and {source.digest} is recorded for this version")
        return content
