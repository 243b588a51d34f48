"""Runs the benchmarks and writes one JSON document: `python -m benchmarks [group] [--output FILE]`.

A group is a prefix of file names. `python -m benchmarks.compare OLD NEW` compares two documents.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from benchmarks.document import (
    RESULTS,
    Document,
    current_commit,
    current_machine,
    current_versions,
    now,
    read_figures,
)
from benchmarks.figures import Figure

NOT_PROGRAMS = frozenset({"__init__", "__main__", "compare", "document", "figures", "profile"})
ONLY_BY_NAME = frozenset({"arrivals", "go_lifecycle_manager", "real_modules", "scaling", "soak"})
"""Minutes of load, not a figure of each run; the first needs the program, too."""


def main() -> int:
    """Run the programs one after the other, write the document, and return how many failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("group", nargs="?", default="", help="run only programs whose name starts with this")
    parser.add_argument("--output", type=Path, help="the document; by default benchmarks/results/<time>.json")
    options = parser.parse_args()
    programs = select(options.group)
    if not programs:
        print(f"no benchmark has a name that starts with {options.group!r}; see benchmarks/", file=sys.stderr)
        return 2
    began, machine = now(), current_machine()
    figures: list[Figure] = []
    failed: list[str] = []
    for program in programs:
        print(f"# {program}", file=sys.stderr, flush=True)
        found, code = _run(program)
        figures += found
        failed += [program] if code else []
    path = options.output or RESULTS / f"{began}.json"
    Document(
        began=began,
        commit=current_commit(),
        machine=machine,
        versions=current_versions(),
        figures=figures,
        failed=failed,
    ).write(path)
    print(f"# {len(figures)} figures in {path}", file=sys.stderr)
    return len(failed)


def select(group: str) -> list[str]:
    """Return the names of the programs of a group."""
    return sorted(
        path.stem
        for path in Path(__file__).parent.glob("*.py")
        if path.stem not in NOT_PROGRAMS
        and path.stem.startswith(group)
        and (path.stem not in ONLY_BY_NAME or path.stem == group)
    )


def _run(program: str) -> tuple[list[Figure], int]:
    """Run a program and print its lines as they come; return its figures and exit code."""
    lines = []
    with subprocess.Popen([sys.executable, "-m", f"benchmarks.{program}"], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for line in child.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    return read_figures(lines, program), child.returncode


if __name__ == "__main__":
    sys.exit(main())
