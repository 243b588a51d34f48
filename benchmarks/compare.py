"""Compares the figures of two documents: `python -m benchmarks.compare OLD NEW`.

Where both runs had a peer, `to the peer` compares the ratios to the peer, which depend far less on the machine than the
values do. On different machines, or under a different load, only that column means something.
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.document import Document, read_document
from benchmarks.figures import Figure

BARS = {True: "[green]met[/]", False: "[red]missed[/]", None: ""}


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of two runs; None where a run does not have it."""

    name: str
    old: Figure | None
    new: Figure | None

    @property
    def ratio(self) -> float | None:
        """The new value divided by the old one."""
        return _divided(_value(self.new), _value(self.old))

    @property
    def peer_ratio(self) -> float | None:
        """The new ratio to the peer divided by the old one."""
        return _divided(self.new.ratio if self.new else None, self.old.ratio if self.old else None)


def main() -> int:
    """Print the table; return 2 if a document cannot be read."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    options = parser.parse_args()
    try:
        old, new = read_document(options.old), read_document(options.new)
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    print_comparison(old, new, Console())
    return 0


def compare(old: Document, new: Document) -> list[Row]:
    """Return one row for each figure, in the order of the new document; those that only the old one has come last."""
    before, after = _by_name(old), _by_name(new)
    return [Row(name, before.get(name), after.get(name)) for name in (*after, *(before.keys() - after.keys()))]


def print_comparison(old: Document, new: Document, console: Console) -> None:
    """Print both runs, what differs between their machines and versions, and the table."""
    for label, run in (("old", old), ("new", new)):
        console.print(f"{label}: {run.commit} at {run.began}, load {run.machine.load:g}", highlight=False)
    for difference in differences(old, new):
        console.print(f"[yellow]differs:[/] {difference}", highlight=False)
    table = Table(box=None, header_style="bold")
    table.add_column("figure", overflow="fold")
    for heading in ("unit", "old", "new", "new/old", "to the peer", "bar"):
        table.add_column(heading, justify="left" if heading in {"unit", "bar"} else "right")
    for row in compare(old, new):
        figure = row.new or row.old
        assert figure is not None
        table.add_row(
            row.name,
            figure.unit,
            _number(_value(row.old)),
            _number(_value(row.new)),
            _number(row.ratio),
            _number(row.peer_ratio),
            BARS[row.new.met if row.new else None],
        )
    console.print(table)


def differences(old: Document, new: Document) -> list[str]:
    """Return what differs between the machines and the versions of two runs."""
    sides = [
        {"processor": run.machine.processor, "cores": str(run.machine.cores), "system": run.machine.system}
        | {"memory": f"{run.machine.memory_mb} MB"}
        | run.versions
        for run in (old, new)
    ]
    names = dict.fromkeys((*sides[0], *sides[1]))
    return [
        f"{name}: {sides[0].get(name, 'none')} and {sides[1].get(name, 'none')}"
        for name in names
        if sides[0].get(name) != sides[1].get(name)
    ]


def _by_name(document: Document) -> dict[str, Figure]:
    return {
        f"{figure.program}: {figure.name}" if figure.program else figure.name: figure for figure in document.figures
    }


def _value(figure: Figure | None) -> float | None:
    return figure.value if figure is not None else None


def _divided(value: float | None, by: float | None) -> float | None:
    return value / by if value is not None and by else None


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"


if __name__ == "__main__":
    sys.exit(main())
