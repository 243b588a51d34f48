"""How much memory bodies may take at once: of requests, which anybody may send, and of answers of foreign servers."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


class TooManyBytes(Exception):
    """All bodies together have more bytes than are kept."""


@dataclass(eq=False)
class ByteBudget:
    """How many bytes of bodies are kept at once, of all peers together and of those with one address."""

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
                raise TooManyBytes("too many bytes of others are in memory")
            self.taken[address] += size
            mine += size

        try:
            yield take
        finally:
            self.taken[address] -= mine
            if not self.taken[address]:
                del self.taken[address]
