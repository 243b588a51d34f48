"""Builds the site into `.local/site`: `python -m tools.documentation`. Fails for a dead link or anchor.

With `--reference` it writes what the repository keeps of the reference, and nothing else (`make reference`).
With `--into FOLDER` it is also published there beside other versions. `SITE` is the address of that folder, if known.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from tools.documentation.reference import kept
from tools.documentation.site import build
from tools.documentation.versions import publish
from tools.release.version import current

FOLDER = Path(".local/site")


def main() -> int:
    """Build the site, and publish it."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.documentation", description="Build the documentation's site."
    )
    parser.add_argument("--into", type=Path, help="folder of all versions, in which this one is published")
    parser.add_argument("--reference", action="store_true", help="only write what the repository keeps of it")
    given = parser.parse_args()
    if given.reference:
        for file, text in kept().items():
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
        return 0
    into = given.into
    version = current()
    try:
        count = build(FOLDER, version=version, site=os.environ.get("SITE", ""), files=os.environ.get("REPOSITORY", ""))
    except subprocess.CalledProcessError as error:
        return error.returncode
    if into is not None:
        publish(FOLDER / "html", into=into, version=version)
    sys.stdout.write(f"{count} pages: {FOLDER / 'html' / 'index.html'}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
