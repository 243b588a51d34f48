"""What the playground prints: for other terminals, and where it can't run."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kyma_demo.playground import running
from kyma_demo.playground.running import exports, run_playground
from kyma_demo.rollout.running import run_rollout_demo
from kyma_fleet.problems import Problem


def test_other_terminals_get_the_programs_of_a_venv_and_the_kubeconfig() -> None:
    kubeconfig = Path("/here/kcp/kubeconfig")
    assert (
        exports(kubeconfig, "/here/.venv", "/usr")
        == "export PATH=/here/.venv/bin:$PATH KUBECONFIG=/here/kcp/kubeconfig"
    )
    assert exports(kubeconfig, "/usr", "/usr") == "export KUBECONFIG=/here/kcp/kubeconfig"


@asynccontextmanager
async def no_clusters(**_: Any) -> AsyncIterator[Any]:
    yield SimpleNamespace()


async def not_ready(*_: Any) -> None:
    raise Problem("not ready")


def test_what_ends_it_is_a_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(running, "find_binaries", lambda _: None)
    monkeypatch.setattr(running.LocalClusters, "start", no_clusters)
    monkeypatch.setattr(running.Playground, "_start", not_ready)
    assert run_playground() == 1
    assert capsys.readouterr().out == "not ready\n"


def test_folder_that_can_not_be_written_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(running, "find_binaries", lambda _: None)
    (tmp_path / ".local").touch()
    assert run_playground() == run_rollout_demo(clusters=20, stay=False, as_document=False, directory=None) == 1
    assert capsys.readouterr().out.count("/.local") == 2
