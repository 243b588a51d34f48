"""How much memory the bodies of requests may take: whoever reaches the port may send them."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

__all__ = ["ByteBudget", "TooManyBytes"]


class TooManyBytes(Exception):
    """The bodies of all requests together have more bytes than the endpoint keeps."""


@dataclass(eq=False)
class ByteBudget:
    """How many bytes of bodies an endpoint keeps at once, of all clients together and of those with one address."""

    total: int
    per_address: int
    taken: Counter[str] = field(default_factory=Counter, init=False)

    @contextmanager
    def share(self, address: str) -> Iterator[Callable[[int], None]]:
        """Give a function that takes bytes until the end, and raises TooManyBytes where there are none left."""
        mine = 0

        def take(size: int) -> None:
            nonlocal mine
            if self.taken.total() + size > self.total or self.taken[address] + size > self.per_address:
                raise TooManyBytes("too many bytes of other requests are in memory")
            self.taken[address] += size
            mine += size

        try:
            yield take
        finally:
            self.taken[address] -= mine
            if not self.taken[address]:
                del self.taken[address]
