"""The fixtures of the SDK's test kit."""

import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kube_runtime import Client
from kyma_module_manager.testing.plugin import ControlPlane, control_plane, managed

__all__ = ["control_plane", "go_build", "managed"]


@pytest.fixture
async def own(control_plane: ControlPlane) -> AsyncIterator[Client]:
    async with await Client.from_kubeconfig(control_plane.manager_kubeconfig) as client:
        yield client


@pytest.fixture(scope="session")
def go_build(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
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
            timeout=1800,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return target

    return build
