"""Runs a task of the Makefile on the Python of the images: `python -m tools.images.debian test-fast`.

The base of the images has only what they need, so the tools of the tests are in another root file system of its suite.
"""

import sys
import tempfile
from pathlib import Path

from tools.images.bases import PACKAGES, SUITE, debian_root
from tools.images.within import run_within, unpack

TOOLS = (*PACKAGES, "git", "libstdc++6", "make", "openssl", "python3-venv")


def main() -> int:
    """Run it, and return its exit code. Raises BaseMissing."""
    with tempfile.TemporaryDirectory(prefix="klm-debian-") as scratch:
        root = unpack(debian_root(f"debian-{SUITE}-tests", TOOLS), Path(scratch) / "root")
        variables = ("PYTHON=/usr/bin/python3", f"VENV=.local/python-{SUITE}")
        command = ("make", "--no-print-directory", *variables, *sys.argv[1:])
        return run_within(root, *command, folder=Path.cwd(), environment={}, capture=False).returncode


if __name__ == "__main__":
    sys.exit(main())
