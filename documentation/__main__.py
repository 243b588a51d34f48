"""Builds the site into `.local/site`: `python -m documentation`. Fails for a dead link or anchor."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from documentation.site import configuration, write_sources

FOLDER = Path(".local/site")


def main() -> None:
    """Write the sources and build the site from them."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    count = write_sources(FOLDER / "sources", repository=os.environ.get("REPOSITORY", ""))
    (FOLDER / "zensical.toml").write_text(configuration())
    build = [sys.executable, "-m", "zensical", "build", "--strict", "--config-file", str(FOLDER / "zensical.toml")]
    done = subprocess.run(build, check=False)  # noqa: S603 - our own arguments
    if done.returncode:
        sys.exit(done.returncode)
    sys.stdout.write(f"{count} pages: {FOLDER / 'html' / 'index.html'}\n")


if __name__ == "__main__":
    main()
