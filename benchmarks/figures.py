"""One figure of a benchmark, printed as a JSON line."""

from dataclasses import asdict, dataclass

import msgspec


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A measured value and that of a peer in the same run; `met` tells whether the bar was met."""

    name: str
    unit: str
    value: float
    peer: str
    peer_value: float
    bar: str
    met: bool

    def print(self) -> None:
        """Print the figure as one JSON line."""
        ratio = round(self.value / self.peer_value, 3) if self.peer_value else None
        line = asdict(self) | {"ratio": ratio}
        print(msgspec.json.encode(line).decode(), flush=True)
