"""The fixtures that module teams get, used on the SDK itself."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from module_manager.testing.plugin import control_plane, managed

__all__ = ["control_plane", "go_build", "managed"]


@pytest.fixture(scope="session")
def go_build(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    """Builds a Go program and returns its path."""
    if shutil.which("go") is None:
        pytest.skip("needs a Go toolchain")
    folder = tmp_path_factory.mktemp("go")

    def build(source: Path) -> Path:
        target = folder / source.name
        done = subprocess.run(
            ["go", "build", "-o", str(target), "."],
            cwd=source,
            env={**os.environ, "GOFLAGS": "-mod=readonly"},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return target

    return build
