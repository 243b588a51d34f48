"""One figure of a benchmark, printed as a JSON line."""

from collections.abc import Iterable

import msgspec


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """A measured value, and that of a peer in the same run if there is one; `met` tells whether the bar was met.

    `program`: that which printed it, in the document of a run.
    """

    name: str
    unit: str
    value: float
    peer: str = ""
    peer_value: float = 0
    bar: str
    met: bool
    program: str = ""

    @property
    def ratio(self) -> float | None:
        """The value divided by that of the peer."""
        return round(self.value / self.peer_value, 3) if self.peer_value else None

    def print(self) -> None:
        """Print the figure as one JSON line."""
        line = msgspec.structs.asdict(self) | {"ratio": self.ratio}
        print(msgspec.json.encode(line).decode(), flush=True)


def print_all(figures: Iterable[Figure]) -> int:
    """Print figures as they come; return the exit code of the program, which is 1 if a bar was missed."""
    met = True
    for figure in figures:
        figure.print()
        met = met and figure.met
    return 0 if met else 1
