"""What the playground and the demos print: for other terminals, and where they can't run."""

from contextlib import nullcontext
from pathlib import Path

import pytest
from rich.console import Console

from kube_runtime import dump_yaml
from kyma_demo.playground import running
from kyma_demo.playground.running import run_playground
from kyma_demo.rollout import running as rollout
from kyma_demo.rollout.running import run_rollout_demo
from kyma_demo.running import exports, print_next_commands, run_demo
from kyma_fleet.problems import Problem


def test_other_terminals_get_the_programs_of_a_venv_and_the_kubeconfig() -> None:
    kubeconfig = Path("/my files/kubeconfig")
    both = "export PATH='/my files/bin':$PATH KUBECONFIG='/my files/kubeconfig'"
    assert exports(kubeconfig, "/my files", "/usr") == both
    assert exports(kubeconfig, "/usr", "/usr") == "export KUBECONFIG='/my files/kubeconfig'"


@pytest.mark.parametrize("of_rollout", [False, True])
def test_demo_names_what_another_terminal_needs_before_the_first_klm(
    capsys: pytest.CaptureFixture[str], *, of_rollout: bool
) -> None:
    kcp, skr = Path("/kcp/kubeconfig"), Path("/skr/kubeconfig")
    if of_rollout:
        rollout.print_next_commands(Console(), kcp)
    else:
        print_next_commands(Console(), kcp, skr, "")
    commands = [line.strip() for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]
    assert commands[0] == exports(kcp)
    assert any(each.startswith("klm ") for each in commands[1:])


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The current folder, where nothing is downloaded."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(running, "find_binaries", lambda _: None)
    return tmp_path


@pytest.mark.usefixtures("here")
def test_what_ends_it_is_a_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    async def start(*_: object) -> None:
        raise Problem("not ready")

    monkeypatch.setattr("kyma_demo.playground.running.LocalClusters.start", lambda **_: nullcontext())
    monkeypatch.setattr(running.Playground, "_start", start)
    assert (run_playground(), capsys.readouterr().out) == (1, "not ready\n")


def test_folder_that_can_not_be_written_is_named(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / ".local").touch()
    assert run_playground() == run_rollout_demo(clusters=20, stay=False, as_document=False, directory=None) == 1
    assert capsys.readouterr().out.count("/.local") == 2


def test_cluster_that_does_not_answer_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster, context = {"server": "http://127.0.0.1:1"}, {"cluster": "a"}
    named = {"clusters": [{"name": "a", "cluster": cluster}], "contexts": [{"name": "a", "context": context}]}
    (file := tmp_path / "kubeconfig").write_text(dump_yaml(named | {"current-context": "a"}))
    assert run_demo(stay=False, as_document=False, changes=1, kcp=file, skr=file, directory=tmp_path) == 1
    assert "127.0.0.1:1" in capsys.readouterr().out
