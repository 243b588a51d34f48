"""Runs the benchmarks, or one group: `python -m benchmarks [group]`. A group is a prefix of file names."""

import subprocess
import sys
from pathlib import Path

NOT_PROGRAMS = frozenset({"__init__", "__main__", "figures"})


def main() -> int:
    """Run the programs one after the other, and return how many failed."""
    group = sys.argv[1] if len(sys.argv) > 1 else ""
    programs = sorted(
        path.stem
        for path in Path(__file__).parent.glob("*.py")
        if path.stem not in NOT_PROGRAMS and path.stem.startswith(group)
    )
    if not programs:
        print(f"no benchmark has a name that starts with {group!r}; see benchmarks/", file=sys.stderr)
        return 2
    failed = 0
    for program in programs:
        print(f"# {program}", file=sys.stderr, flush=True)
        failed += subprocess.run([sys.executable, "-m", f"benchmarks.{program}"], check=False).returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
