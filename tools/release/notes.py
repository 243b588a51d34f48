"""Prints what CHANGELOG.md says of the version that is released, for its release: `python -m tools.release.notes`."""

import re
import sys
from pathlib import Path

from tools.release.version import current


def main() -> int:
    """Print the notes of this version."""
    sys.stdout.write(notes_of(current(), Path("CHANGELOG.md").read_text()))
    return 0


def notes_of(version: str, changelog: str) -> str:
    """Return the section of a version. Raises ValueError where there is none."""
    found = re.search(rf"^## \[?{re.escape(version)}\b.*\n(?P<notes>(?:(?!## ).*\n)*)", changelog, re.MULTILINE)
    if found is None:
        raise ValueError(f"CHANGELOG.md has no section `## {version}`: rename `## Unreleased`")
    return found["notes"].strip() + "\n"


if __name__ == "__main__":
    sys.exit(main())
