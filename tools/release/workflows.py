"""Checks the workflows of .github: `python -m tools.release.workflows` runs actionlint and zizmor offline."""

import subprocess
import sys
from pathlib import Path

from kyma_local.go_programs import GoProgram

ACTIONLINT = GoProgram(name="actionlint", module="github.com/rhysd/actionlint", version="v1.7.12")


def main() -> int:
    """Return 1 if a program has found something."""
    zizmor = Path(sys.executable).with_name("zizmor")
    commands = (
        # What else is installed on a machine must not change the result.
        (ACTIONLINT.find(), "-shellcheck=", "-pyflakes=", *sorted(Path(".github/workflows").iterdir())),
        (zizmor, "--quiet", "--offline", ".github"),
    )
    codes = [subprocess.run(list(map(str, each)), check=False).returncode for each in commands]
    return int(any(codes))


if __name__ == "__main__":
    sys.exit(main())
