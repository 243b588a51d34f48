"""A watch: a position in the history of a cluster that advances with its changes.

It holds only its position, so a slow reader costs nothing; one whose position was compacted meanwhile gets 410.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

import msgspec

from kube_simulation.kinds import Kind
from kube_simulation.reading import served_body, version_asked
from kube_simulation.refusals import Refused, gone
from kube_simulation.requests import ApiRequest, ConnectionDropped
from kube_simulation.selectors import Selector, selector_of
from kube_simulation.store import ObjectName, Storage, Store, Stored, StoredChange

if TYPE_CHECKING:
    from kube_simulation.rules import Rule

_MAX_SECONDS = 1800.0


class Watches:
    """The watches that are open, by what they follow."""

    def __init__(self) -> None:
        self._open: dict[Storage, set[Watch]] = {}

    def __len__(self) -> int:
        return sum(len(each) for each in self._open.values())

    def add(self, watch: "Watch") -> None:
        """Notify a watch of changes of its kind."""
        self._open.setdefault(watch.kind.storage, set()).add(watch)

    def remove(self, watch: "Watch") -> None:
        """Stop to notify a watch."""
        followers = self._open.get(watch.kind.storage, set())
        followers.discard(watch)
        if not followers:
            self._open.pop(watch.kind.storage, None)

    def notify(self, storage: Storage | None = None) -> None:
        """Notify the watches of a kind, or all."""
        for followed in [storage] if storage is not None else list(self._open):
            for watch in self._open.get(followed, ()):
                watch.notify()

    def end(self, *, abruptly: bool = False) -> None:
        """End all watches, as a server does that goes down; abruptly, as a network does that breaks."""
        for followers in self._open.values():
            for watch in followers:
                watch.end(abruptly=abruptly)


class Watch:
    """One watch. `chunks` yields its bytes; changes before `since` are not reported."""

    def __init__(
        self,
        store: Store,
        watches: Watches,
        rules: Callable[[], tuple["Rule", ...]],
        kind: Kind,
        request: ApiRequest,
        bookmark_seconds: float,
        since: int = 0,
    ) -> None:
        self.kind = kind
        self._since = since
        self.request = request
        self._store = store
        self._watches = watches
        self._rules = rules
        self._bookmark_seconds = bookmark_seconds
        query = request.query
        self._selector: Selector | None = selector_of(
            kind, query.get("labelSelector", ""), query.get("fieldSelector", "")
        )
        self._bookmarks = query.get("allowWatchBookmarks") in {"true", "1"}
        self._initial_events = query.get("sendInitialEvents") in {"true", "1"}
        self._hidden: dict[ObjectName, StoredChange] = {}
        self._woken = asyncio.Event()
        self._ended = False
        self._broken = False
        self._start = self._start_version()

    def notify(self) -> None:
        """Look for new changes."""
        self._woken.set()

    def end(self, *, abruptly: bool = False) -> None:
        """Report nothing more."""
        self._ended = True
        self._broken = abruptly
        self._woken.set()

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield what there is to send, until the watch ends. Raises ConnectionDropped where it is broken."""
        loop = asyncio.get_running_loop()
        until = loop.time() + float(self.request.query.get("timeoutSeconds") or _MAX_SECONDS)
        bookmark_at = loop.time() + self._bookmark_seconds
        self._watches.add(self)
        try:
            position, first = self._beginning()
            if first:
                yield first
            while not self._ended:
                self._woken.clear()
                try:
                    position, lines = self._lines_after(position)
                except Refused as refused:
                    yield _line(b"ERROR", refused.body())
                    return
                if lines:
                    yield b"".join(lines)
                now = loop.time()
                if now >= until or now >= bookmark_at:
                    if self._bookmarks and not self._hidden:
                        yield self._bookmark(position)
                    if now >= until:
                        return
                    bookmark_at = now + self._bookmark_seconds
                try:
                    async with asyncio.timeout_at(min(until, bookmark_at)):
                        await self._woken.wait()
                except TimeoutError:
                    continue
            if self._broken:
                raise ConnectionDropped
        finally:
            self._watches.remove(self)

    def _start_version(self) -> int | None:
        """Return the version after which changes are reported, None to begin with the objects that exist."""
        try:
            asked = version_asked(self._store, self.request)
        except Refused as refused:
            if refused.reason != "Timeout":
                raise
            return self._store.version  # it is of the future; a real server waits for it
        return None if self._initial_events else asked

    def _beginning(self) -> tuple[int, bytes]:
        """Return the version from which to go on, and what to send before."""
        if self._start is not None:
            return self._start, b""
        version = self._horizon()
        table = self._store.table_at(self.kind.storage, version)
        if table is None:
            return version, b""  # the next look finds out
        lines = [
            _line(b"ADDED", served_body(self.kind, stored)) for stored in table.in_order() if self._is_followed(stored)
        ]
        if self._bookmarks:
            lines.append(self._bookmark(version, initial_end=True))
        return version, b"".join(lines)

    def _horizon(self) -> int:
        """Return the version up to which the rules let this watch see."""
        limits = [rule.horizon(self.request) for rule in self._rules()]
        return min([self._store.version, *(each for each in limits if each is not None)])

    def _lines_after(self, position: int) -> tuple[int, list[bytes]]:
        """Return the version that is reached, and the lines up to it. Raises Refused: 410."""
        oldest = max(self._store.oldest, self._since)
        if position < oldest:
            raise gone(f"too old resource version: {position} ({oldest})")
        horizon = self._horizon()
        if horizon <= position:
            return position, self._no_longer_hidden()
        lines: list[bytes] = []
        for change in self._store.changes_after(position, horizon):
            if change.storage == self.kind.storage:
                lines += self._lines_of(change)
        return horizon, [*self._no_longer_hidden(), *lines]

    def _lines_of(self, change: StoredChange) -> list[bytes]:
        key = change.after.key
        line = self._line_of(change)
        if line is None:
            return []
        overwritten = self._hidden.pop(key, None)
        if overwritten is None and any(rule.hides(self.request, change) for rule in self._rules()):
            self._hidden[key] = change
            return []
        return [line]

    def _no_longer_hidden(self) -> list[bytes]:
        """Return the lines that were hidden and that no rule hides any more."""
        if not self._hidden:
            return []
        shown = [
            change
            for change in self._hidden.values()
            if not any(rule.hides(self.request, change) for rule in self._rules())
        ]
        for change in shown:
            del self._hidden[change.after.key]
        return [line for line in map(self._line_of, shown) if line is not None]

    def _line_of(self, change: StoredChange) -> bytes | None:
        """Return a change as this watch reports it, None where it does not select it."""
        before, after = change.before, change.after
        was = before is not None and self._is_followed(before)
        if change.deleted:
            return _line(b"DELETED", served_body(self.kind, after)) if was else None
        if self._is_followed(after):
            return _line(b"MODIFIED" if was else b"ADDED", served_body(self.kind, after))
        if was and before is not None:  # it has left the selection; it is reported as it was, under the new version
            document = before.document()
            document["metadata"]["resourceVersion"] = str(change.version)
            return _line(b"DELETED", msgspec.json.encode(document))
        return None

    def _is_followed(self, stored: Stored) -> bool:
        namespace = self.request.namespace
        name = self.request.name
        return (
            (not namespace or stored.namespace == namespace)
            and (not name or stored.name == name)
            and (self._selector is None or self._selector(stored))
        )

    def _bookmark(self, version: int, *, initial_end: bool = False) -> bytes:
        metadata: dict[str, object] = {"resourceVersion": str(version)}
        if initial_end:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        mark = {"kind": self.kind.kind, "apiVersion": self.kind.api_version, "metadata": metadata}
        return _line(b"BOOKMARK", msgspec.json.encode(mark))


def _line(kind: bytes, body: bytes) -> bytes:
    return b'{"type":"' + kind + b'","object":' + body + b"}\n"
