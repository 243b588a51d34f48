"""Injected faults: rules that delay, drop, refuse or hide requests and changes.

A rule is a plain object. `around` stands around each request and may wait, refuse, or answer itself; `horizon` says up
to which version a reader sees the cluster; `hides` keeps a watch from telling a change until a later one of the same
object overwrites it, or until the rule is taken away. Rules are asked in the order in which they were added.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from kube_simulation.refusals import Refused
from kube_simulation.requests import Answer, ApiRequest, ConnectionDropped
from kube_simulation.store import StoredChange

Matcher = Callable[[ApiRequest], bool]
Proceed = Callable[[], Awaitable[Answer]]


def every_request(request: ApiRequest) -> bool:
    """Match everything."""
    return True


def is_write(request: ApiRequest) -> bool:
    """Match requests that write."""
    return request.is_write


def is_read(request: ApiRequest) -> bool:
    """Match get, list and watch."""
    return request.method == "GET"


class Rule:
    """Does nothing. Subclasses override what they need."""

    async def around(self, request: ApiRequest, proceed: Proceed) -> Answer:
        """Answer a request, by `proceed` or otherwise. May raise Refused or ConnectionDropped."""
        return await proceed()

    def horizon(self, request: ApiRequest) -> int | None:
        """Return the version up to which this request sees the cluster, None for the newest."""
        return None

    def hides(self, request: ApiRequest, change: StoredChange) -> bool:
        """Tell whether a change is hidden from a watch until a later one of the object overwrites it."""
        return False


@dataclass(eq=False)
class _Counted(Rule):
    """A rule for the requests that match, and for so many of them at most."""

    matches: Matcher = every_request
    times: int | None = None
    seen: int = field(default=0, init=False)

    def takes(self, request: ApiRequest) -> bool:
        """Tell whether this request is meant, and count it."""
        if not self.matches(request) or (self.times is not None and self.seen >= self.times):
            return False
        self.seen += 1
        return True


@dataclass(eq=False)
class Delay(_Counted):
    """Waits before a request is done, or with `after` before it is answered."""

    seconds: float = 0.0
    after: bool = False

    async def around(self, request: ApiRequest, proceed: Proceed) -> Answer:
        if not self.takes(request):
            return await proceed()
        if self.after:
            answer = await proceed()
            await asyncio.sleep(self.seconds)
            return answer
        await asyncio.sleep(self.seconds)
        return await proceed()


@dataclass(eq=False)
class Drop(_Counted):
    """Closes the connection: with `after`, when the request was done, which the client then can't know."""

    after: bool = False

    async def around(self, request: ApiRequest, proceed: Proceed) -> Answer:
        if not self.takes(request):
            return await proceed()
        if self.after:
            await proceed()
        raise ConnectionDropped


@dataclass(eq=False)
class NeverAnswer(_Counted):
    """Accepts a request and never responds, until the client gives up or the rule is `released`."""

    after: bool = False
    released: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    async def around(self, request: ApiRequest, proceed: Proceed) -> Answer:
        if not self.takes(request):
            return await proceed()
        if self.after:
            await proceed()
        await self.released.wait()
        raise ConnectionDropped


@dataclass(eq=False)
class Refuse(_Counted):
    """Refuses requests."""

    refused: Refused = field(default_factory=lambda: Refused(500, "InternalError", "the test refuses this"))

    async def around(self, request: ApiRequest, proceed: Proceed) -> Answer:
        if self.takes(request):
            raise self.refused
        return await proceed()

    @classmethod
    def too_many_requests(
        cls, retry_after_seconds: int = 1, *, matches: Matcher = every_request, times: int | None = None
    ) -> "Refuse":
        """Return a rule that answers 429 with Retry-After."""
        message = "the server has received too many requests and has asked us to try again later"
        refused = Refused(429, "TooManyRequests", message, {}, retry_after_seconds=retry_after_seconds)
        return cls(matches, times, refused)


@dataclass(eq=False)
class Freeze(Rule):
    """Shows the cluster as it was at a version, to reads and watches; writes go on.

    The version must be within the history that the cluster keeps; a list of an older one is refused with 410.
    """

    version: int
    matches: Matcher = every_request

    def horizon(self, request: ApiRequest) -> int | None:
        return self.version if self.matches(request) else None
