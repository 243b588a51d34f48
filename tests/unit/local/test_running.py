"""What the commands of local clusters pass on."""

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kyma_local import running
from kyma_local.binaries import BinariesMissing
from kyma_local.cache import Binaries
from kyma_local.claims import claimed
from kyma_local.cli import app
from kyma_local.progress import Listener
from kyma_local.sources import Versions


def test_clusters_of_another_user_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(_process: int, _signal: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.kill", refuse)
    with claimed(tmp_path):
        done = CliRunner().invoke(app, ["down", "--dir", str(tmp_path)])
    assert (done.exit_code, done.exception.__class__) == (1, SystemExit)
    assert f"process {os.getpid()} of the clusters in {tmp_path} is of another user" in done.output


def test_folder_that_can_not_be_used_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(running, "find_binaries", lambda *_, **__: Binaries(tmp_path))
    done = CliRunner().invoke(app, ["up", "--dir", str(tmp_path / "file")])
    assert (done.exit_code, done.exception.__class__) == (1, SystemExit)
    assert f"{tmp_path}/file" in done.output


@pytest.mark.parametrize("given", ["v1.34.4", "1.34.4"])
def test_clusters_have_the_version_of_the_option(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    def find(_listener: Listener, *, versions: Versions) -> None:
        raise BinariesMissing(f"nothing for {versions.kubernetes}")

    monkeypatch.setattr(running, "find_binaries", find)
    done = CliRunner().invoke(app, ["up", "--kubernetes", given])
    assert (done.exit_code, "nothing for v1.34.4" in done.output) == (1, True)


@pytest.mark.parametrize("given", ["1.34", "latest", "../v1.34.4", ""])
def test_what_is_no_version_is_not_looked_for(given: str) -> None:
    done = CliRunner().invoke(app, ["binaries", "--kubernetes", given])
    assert done.exit_code == 2
    assert "is no version such as v" in done.output
