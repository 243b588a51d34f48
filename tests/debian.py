"""Programs from Debian's packages, unpacked into the cache; nothing is installed."""

import shutil
import subprocess
import tempfile
from pathlib import Path

from kyma_local.cache import locked

CACHE = Path.home() / ".cache" / "kyma-lifecycle-manager"


class NoPackage(Exception):
    """A package of Debian could not be had."""


def find_program(package: str, *names: str) -> Path:
    """Return a program: by one of its names on PATH, from the cache, or from the package. Raises NoPackage."""
    for name in (package, *names):
        if found := shutil.which(name):
            return Path(found)
    program = CACHE / package / "usr" / "bin" / package
    if not program.exists():
        _fetch(package, program)
    return program


def _fetch(package: str, program: Path) -> None:
    """Unpack the package into the cache, whole or not at all."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with locked(CACHE / f"{package}.lock"):
        if program.exists():
            return  # another process was faster
        with tempfile.TemporaryDirectory(dir=CACHE, prefix="fetching-") as scratch:
            unpacked = Path(scratch) / "unpacked"
            try:
                for command in (["apt-get", "download", package], ["sh", "-c", f"dpkg -x {package}_*.deb unpacked"]):
                    subprocess.run(command, cwd=scratch, check=True, capture_output=True, timeout=240)
            except (OSError, subprocess.SubprocessError) as error:
                raise NoPackage(f"Debian's package {package} could not be had: {error}") from None
            shutil.rmtree(CACHE / package, ignore_errors=True)
            unpacked.rename(CACHE / package)
