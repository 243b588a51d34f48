"""What triggered the reconcile of a key. Causes travel with the key in the queue and are merged there."""

from collections.abc import Hashable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

MAX_CAUSES_PER_KEY = 100


class Causes:
    """The distinct causes of one reconcile, in the order of their arrival, and the trace of the newest. Immutable.

    Of causes that are equal the newest is kept: it may have fields that are not compared, such as a time.
    A key keeps at most MAX_CAUSES_PER_KEY, the newest. Where more arrived, `overflowed` is true: some are missing, and
    the reconcile has to read everything. The trace is no cause: it names what the reconcile is a part of.
    """

    __slots__ = ("_causes", "overflowed", "trace")

    def __init__(self, causes: Iterable[Hashable] = (), *, overflowed: bool = False, trace: str = "") -> None:
        distinct = tuple({each: each for each in causes}.values())
        self._causes = distinct[-MAX_CAUSES_PER_KEY:]
        self.overflowed = overflowed or len(distinct) > MAX_CAUSES_PER_KEY
        self.trace = trace

    def of(self, type_: type[T]) -> tuple[T, ...]:
        """Return the causes that are instances of a type."""
        return tuple(each for each in self._causes if isinstance(each, type_))

    def merged(self, later: "Causes") -> "Causes":
        """Return these causes and later ones."""
        if not later:
            return self
        if not self:
            return later
        overflowed = self.overflowed or later.overflowed
        return Causes((*self._causes, *later), overflowed=overflowed, trace=later.trace or self.trace)

    def __contains__(self, cause: object) -> bool:
        return cause in self._causes

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._causes)

    def __len__(self) -> int:
        return len(self._causes)

    def __bool__(self) -> bool:
        return bool(self._causes or self.overflowed or self.trace)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Causes):
            return NotImplemented
        return self.overflowed == other.overflowed and set(self._causes) == set(other)

    def __hash__(self) -> int:
        return hash((frozenset(self._causes), self.overflowed))

    def __repr__(self) -> str:
        return f"Causes({list(self._causes)!r}, overflowed={self.overflowed})"


NO_CAUSES = Causes()
