"""Children end with their parent, ports are unique, and a failed start has an error with the end of the log."""

import asyncio
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from kyma_local.ports import FIRST, LAST, free_port
from kyma_local.processes import start_child
from kyma_local.starting import PortTaken, StartFailed, start_server
from tests.waiting import eventually

PARENT = """
import asyncio, sys
from pathlib import Path
from kyma_local.processes import start_child
async def main():
    child = await start_child("sleeper", [sys.executable, "-c", "import time; time.sleep(600)"], Path(sys.argv[1]))
    print(child.pid, flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""


def child_of_a_killed_parent(log: Path) -> int:
    """Have a process start a child, kill that process, and return the child's id."""
    command = [sys.executable, "-c", PARENT, str(log)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert runs(child)
        parent.kill()
    return child


def runs(process: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):  # the second where it ends while it is being read
        return False


def running_with(argument: str) -> list[str]:
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(FileNotFoundError, ProcessLookupError):
            if argument.encode() in file.read_bytes().split(b"\0"):
                found.append(file.parent.name)
    return found


async def never() -> bool:
    return False


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel ends children with their parent on Linux only")
async def test_child_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    child = await asyncio.to_thread(child_of_a_killed_parent, tmp_path / "log")
    await eventually(lambda: not runs(child), what="the child has ended")


async def test_child_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    stubborn = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(600)"
    )
    child = await start_child("stubborn", [sys.executable, "-c", stubborn], tmp_path / "log")

    async def deaf() -> bool:
        return (tmp_path / "log").read_text() != ""

    await eventually(deaf)
    await child.stop(grace_seconds=0.1)
    assert child.returncode == -9


async def test_error_of_an_ended_server_has_the_end_of_its_log(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "print('the disk is full'); raise SystemExit(3)"]
    with pytest.raises(StartFailed, match=r"(?s)etcd ended with code 3.*the disk is full"):
        await start_server("etcd", command, tmp_path / "log", never)


async def test_server_with_a_port_in_use_raises_port_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", str(port)]
        with pytest.raises(PortTaken):
            await start_server("server", command, tmp_path / "log", never)


async def test_server_that_is_never_ready_is_killed(tmp_path: Path) -> None:
    seen = []

    async def unready() -> bool:
        seen.extend(running_with(str(tmp_path)))
        return False

    command = [sys.executable, "-c", "import time; time.sleep(600)", str(tmp_path)]
    with pytest.raises(StartFailed, match=r"was not ready within 0\.5 s"):
        await start_server("sleeper", command, tmp_path / "log", unready, within=0.5)
    assert seen
    assert running_with(str(tmp_path)) == []


def test_ports_are_below_the_ephemeral_range_and_unique() -> None:
    ports = [free_port() for _ in range(200)]
    assert len(set(ports)) == 200
    assert all(FIRST <= port <= LAST for port in ports)


def test_reserved_port_is_not_given_to_another_process_and_can_be_bound() -> None:
    port = free_port()
    looking = f"import random; from kyma_local import ports; random.sample = lambda *_: [{port}]; ports.free_port()"
    other = subprocess.run([sys.executable, "-c", looking], capture_output=True, text=True, check=False)
    assert "NoPortFree" in other.stderr
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
        pytest.fail("somebody listens")
    with socket.create_server(("127.0.0.1", port)), socket.create_connection(("127.0.0.1", port)):
        pass
