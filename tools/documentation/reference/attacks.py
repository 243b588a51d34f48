"""The attacks that were tried, from attacks.toml: what stops each, and the tests that try it."""

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import msgspec

from tools.documentation.markdown import code, table

FILE = Path(__file__).with_suffix(".toml")
INTRODUCTION = """# Attacks

Each row was tried; a benchmark measures what it costs others. `make attack` adds random samples made from valid input,
for everything that reads foreign input; every test run has a few of each. What the limits stand on is in
[trust](../trust.md).
"""


class Attack(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An attack, what stops it, and the names of its tests and benchmarks."""

    attack: str
    stopped_by: str
    tests: tuple[str, ...]


@cache
def attacks() -> Mapping[str, tuple[Attack, ...]]:
    """Return the attacks by who attacks."""
    return msgspec.convert(tomllib.loads(FILE.read_text()), dict[str, tuple[Attack, ...]])


def page() -> str:
    """Return the page."""
    sections = (
        f"\n## {who}\n\n"
        + table(
            ("attack", "what stops it", "tests"),
            ((each.attack, each.stopped_by, ", ".join(map(code, each.tests))) for each in those),
        )
        for who, those in attacks().items()
    )
    return INTRODUCTION + "".join(sections)


def items() -> Iterator[tuple[str, str]]:
    """Yield all attacks with what stops them."""
    yield from ((each.attack, each.stopped_by) for those in attacks().values() for each in those)
