"""What was measured of ours and of the peers, as figures with their bars."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from benchmarks.figures import Figure
from benchmarks.peers.programs import OURS

__all__ = ["NO_BAR", "Bar", "at_least", "at_most", "compared", "over", "under"]


N = TypeVar("N", bound=str)


@dataclass(frozen=True, slots=True)
class Bar:
    """What is asked of our value and the peer's."""

    text: str
    kept: Callable[[float, float], bool]


NO_BAR = Bar("none", lambda _ours, _peer: True)


def at_most(times: float) -> Bar:
    """Ask for so many times the peer's value or less."""
    return Bar(f"at most {times:g} of the peer", lambda ours, peer: ours <= peer * times)


def at_least(times: float) -> Bar:
    """Ask for so many times the peer's value or more."""
    return Bar(f"at least {times:g} of the peer", lambda ours, peer: ours >= peer * times)


def under(limit: float, unit: str) -> Bar:
    """Ask for less than a limit."""
    return Bar(f"under {limit:g} {unit}", lambda ours, _peer: ours < limit)


def over(limit: float, unit: str) -> Bar:
    """Ask for more than a limit."""
    return Bar(f"over {limit:,.0f} {unit}", lambda ours, _peer: ours > limit)


def compared(
    name: str,
    unit: str,
    values: Mapping[N, float],
    bars: Mapping[N, Bar] | None = None,
    *,
    default: Bar = NO_BAR,
) -> Iterator[Figure]:
    """Yield a figure for each peer, or one of ours alone; the bar is the peer's, or the default."""
    ours = next(value for program, value in values.items() if program == OURS)
    alone = len(values) == 1
    for program, value in values.items():
        if program == OURS and not alone:
            continue
        bar = (bars or {}).get(program, default)
        yield Figure(
            name=name,
            unit=unit,
            value=round(ours, 3),
            peer="none" if alone else program,
            peer_value=0.0 if alone else round(value, 3),
            bar=bar.text,
            met=bar.kept(ours, value),
        )
