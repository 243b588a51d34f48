"""Modules that tests of several files have."""

import asyncio
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.module_manager.command_line import git, klm

# Otherwise asyncio opens an event loop in the first test that runs one, and does not close it.
asyncio.set_event_loop(None)


@pytest.fixture
def harbour(tmp_path: Path) -> Path:
    """A module of modulectl, in a Git repository of its own."""
    folder = tmp_path / "harbour"
    shutil.copytree(Path(__file__).parent / "harbour", folder)
    git(folder)
    return folder


@pytest.fixture
def mixer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A new project of the module `mixer`, whose package is imported anew in each test."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    klm("new", "mixer", "--dir", tmp_path / "mixer")
    yield tmp_path / "mixer"
    forget_mixer()


def forget_mixer() -> None:
    """Have the package of the project imported anew."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "mixer"]:
        del sys.modules[name]
