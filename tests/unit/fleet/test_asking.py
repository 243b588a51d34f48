"""The question before a change, on a real terminal: Ctrl-C ends the command at once, and nothing is changed."""

import asyncio
import fcntl
import os
import pty
import termios
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from kube_simulation import SimulatedCluster, serve_simulation
from lifecycle_manager_api import crds, names
from tests.klm import KLM

KYMAS = f"/apis/{names.GROUP}/v1beta2/namespaces/{names.KCP_NAMESPACE}/kymas"
CTRL_C, CTRL_D = b"\x03", b"\x04"


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[SimulatedCluster]:
    async with serve_simulation() as simulation:
        kcp = simulation.cluster("kcp")
        kcp.answer_to("POST", "/api/v1/namespaces", {"metadata": {"name": names.KCP_NAMESPACE}})
        kcp.create(*crds.all_crds())
        for name in ("one", "two"):
            metadata = {"name": name, "namespace": names.KCP_NAMESPACE}
            spec = {"channel": "regular", "modules": []}
            kcp.create({"apiVersion": f"{names.GROUP}/v1beta2", "kind": "Kyma", "metadata": metadata, "spec": spec})
        yield kcp


@contextmanager
def terminal() -> Iterator[tuple[int, int]]:
    """A terminal: what its user types into and reads from, and what the program has."""
    ends = pty.openpty()
    try:
        yield ends
    finally:
        for each in ends:
            os.close(each)


def take_terminal() -> None:
    """Have Ctrl-C reach this process, as a shell does for the command in the foreground."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def read_until(user: int, text: str) -> str:
    shown = ""
    while text not in shown:
        shown += os.read(user, 4096).decode()
    return shown


async def pause_all(cluster: SimulatedCluster, folder: Path, typed: bytes) -> tuple[int, set[str]]:
    """Pause everything, and type something at the question; return the exit code and the Kymas that are paused."""
    kubeconfig = folder / "kcp.yaml"
    kubeconfig.write_bytes(msgspec.json.encode(cluster.kubeconfig))
    with terminal() as (user, program):
        process = await asyncio.create_subprocess_exec(
            *(KLM, "pause", "--all", "--reason", "maintenance", "--kubeconfig", kubeconfig),
            stdin=program,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=program,
            start_new_session=True,
            preexec_fn=take_terminal,
        )
        async with asyncio.timeout(60):
            assert "pause 2 Kymas?" in await asyncio.to_thread(read_until, user, "[y/N]: ")
            os.write(user, typed)
            code = await process.wait()
    kymas = cluster.answer_to("GET", KYMAS).document()["items"]
    paused = {
        each["metadata"]["name"] for each in kymas if names.SKIP_RECONCILIATION in each["metadata"].get("labels", {})
    }
    return code, paused


async def test_ctrl_c_at_a_question_ends_the_command_and_changes_nothing(
    cluster: SimulatedCluster, tmp_path: Path
) -> None:
    assert await pause_all(cluster, tmp_path, CTRL_C) == (130, set())


@pytest.mark.parametrize("typed", [b"\n", b"no\n", CTRL_D])
async def test_anything_but_yes_changes_nothing(cluster: SimulatedCluster, tmp_path: Path, typed: bytes) -> None:
    assert await pause_all(cluster, tmp_path, typed) == (2, set())


async def test_yes_is_taken_after_what_is_no_answer(cluster: SimulatedCluster, tmp_path: Path) -> None:
    assert await pause_all(cluster, tmp_path, b"perhaps\ny\n") == (0, {"one", "two"})


async def test_closed_stdin_is_no_answer(cluster: SimulatedCluster, tmp_path: Path) -> None:
    (kubeconfig := tmp_path / "kcp.yaml").write_bytes(msgspec.json.encode(cluster.kubeconfig))
    command = f"{KLM} pause --all --reason maintenance --kubeconfig {kubeconfig} <&-"
    process = await asyncio.create_subprocess_shell(command, stderr=asyncio.subprocess.PIPE)
    _, errors = await process.communicate()
    assert (process.returncode, errors) == (2, b"klm: not confirmed; nothing changed. Use --yes\n")
