"""What the tests of the images share."""

import re
import shutil
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def context(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The build context: the files that .dockerignore includes, and no others."""
    folder = tmp_path_factory.mktemp("context")
    for name in re.findall(r"^!(\S+)$", Path(".dockerignore").read_text(), re.MULTILINE):
        if Path(name).is_dir():
            shutil.copytree(name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(name, folder / name)
    return folder
