"""The wheels of every distribution, which all tests share."""

import subprocess
import sys
from pathlib import Path

import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    """Run these tests in one worker, which builds the wheels once."""
    item.add_marker(pytest.mark.xdist_group("packages"))


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, uv = tmp_path_factory.mktemp("wheels"), Path(sys.executable).with_name("uv")
    build: list[str | Path] = [uv, "build", "--quiet", "--all-packages", "--wheel", "--out-dir", folder]
    done = subprocess.run(build, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return folder
