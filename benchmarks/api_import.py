"""Measures the import of the API package beyond the interpreter's own start, installed alone as module teams do.

The peer is msgspec alone, the dependency of the package, in the same environment and in turns.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.figures import Figure

ROUNDS = 25
BAR_MS = 50.0
UV = Path(sys.executable).with_name("uv")


def main() -> int:
    """Measure and print one figure; return 1 if the bar was missed."""
    with tempfile.TemporaryDirectory() as folder:
        python = _environment(Path(folder))
        rounds = [
            tuple(_milliseconds(python, code) for code in ("pass", "import lifecycle_manager_api", "import msgspec"))
            for _ in range(ROUNDS)
        ]
    ours = statistics.median(each[1] - each[0] for each in rounds)
    peer = statistics.median(each[2] - each[0] for each in rounds)
    Figure(
        name="api_import",
        unit="ms beyond the interpreter's start",
        value=round(ours, 1),
        peer="msgspec alone",
        peer_value=round(peer, 1),
        bar=f"under {BAR_MS:g} ms",
        met=ours < BAR_MS,
    ).print()
    return 0 if ours < BAR_MS else 1


def _environment(folder: Path) -> Path:
    """Install the package into an environment of its own, and return its Python."""
    python = folder / "venv" / "bin" / "python"
    for command in (
        (UV, "build", "--quiet", "--wheel", "--package", "kyma-lifecycle-manager-api", "--out-dir", folder),
        (UV, "venv", "--quiet", folder / "venv"),
    ):
        subprocess.run(command, check=True)
    (wheel,) = folder.glob("*.whl")
    subprocess.run((UV, "pip", "install", "--quiet", "--compile-bytecode", "--python", python, wheel), check=True)
    return python


def _milliseconds(python: Path, code: str) -> float:
    start = time.perf_counter()
    subprocess.run((python, "-I", "-c", code), check=True)
    return (time.perf_counter() - start) * 1000


if __name__ == "__main__":
    sys.exit(main())
