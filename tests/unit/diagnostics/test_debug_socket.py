"""The debug socket of a process of its own: what it says, to whom, and while its event loop is blocked."""

import asyncio
import json
import os
import socket
import stat
import subprocess
import sys
import textwrap
import threading
from collections.abc import AsyncIterator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from kyma_diagnostics import debug_client, debug_server
from kyma_diagnostics.debug_client import DebugFailed, ask
from kyma_diagnostics.debug_server import MAX_ANSWER_BYTES, DebugSocketUnusable, debug_socket
from kyma_local.processes import start_child
from tests.waiting import eventually

SECRET = "hunter2-of-a-kubeconfig"
PROGRAM = textwrap.dedent(
    f"""
    import asyncio, logging, sys, time
    from pathlib import Path
    from kyma_diagnostics.debug_server import MAX_ANSWER_BYTES, DebugSocketUnusable, Report, debug_socket

    logging.basicConfig(level="INFO", stream=sys.stderr)

    async def sleeper(token):
        await asyncio.sleep(1000)

    async def main():
        tasks = [asyncio.create_task(sleeper("{SECRET}"), name="sleeper of {SECRET}") for _ in range(3)]
        async with debug_socket(Path(sys.argv[1]), {{"queues": lambda: ["module-config: 0 waiting"]}}):
            while True:
                await asyncio.sleep(0.05)
                logging.getLogger("test").debug("fine")
                if Path(sys.argv[1] + ".block").exists():
                    block_the_loop()

    def block_the_loop(password="{SECRET}"):
        time.sleep(1000)

    asyncio.run(main())
    """
)


@dataclass(frozen=True, slots=True)
class Process:
    """A program with a debug socket, and its log."""

    path: Path
    log: Path

    def block(self) -> None:
        Path(f"{self.path}.block").touch()


@pytest.fixture
async def process(tmp_path: Path) -> AsyncIterator[Process]:
    path, log = tmp_path / "debug.sock", tmp_path / "log"
    command = (sys.executable, "-c", PROGRAM, str(path))
    started = await start_child("debugged", command, log, dict(os.environ))
    try:
        await eventually(path.exists)
        yield Process(path, log)
    finally:
        await started.kill()


async def asked(path: Path, command: str) -> str:
    return await asyncio.to_thread(ask, path, command)


async def test_process_is_asked_and_its_log_level_changed(process: Process) -> None:
    path, log = process.path, process.log
    assert stat.S_IMODE(path.stat().st_mode) == 0o600

    tasks = await asked(path, "tasks")
    assert tasks.splitlines()[0].endswith(" tasks")
    assert [line for line in tasks.splitlines() if line.split()[:2] == ["3", "sleeper"]]
    assert "block_the_loop" not in await asked(path, "stacks")
    assert "answers after" in await asked(path, "loop")
    assert await asked(path, "queues") == "module-config: 0 waiting\n"
    assert await asked(path, "log-level") == "INFO\n"
    assert await asked(path, "log-level DEBUG") == "DEBUG\n"
    await eventually(lambda: "fine" in log.read_text())
    for command in ("tasks", "stacks", "loop", "queues"):
        assert SECRET not in await asked(path, command)


async def test_blocked_event_loop_is_found(process: Process) -> None:
    path = process.path
    process.block()

    async def shows_it() -> bool:
        return "block_the_loop" in await asked(path, "stacks")

    await eventually(shows_it)
    with pytest.raises(DebugFailed, match="did not answer for 2 s"):
        await asked(path, "tasks")
    assert SECRET not in await asked(path, "stacks")


async def test_client_without_klm_asks_by_the_variable_of_the_program(
    process: Process,
) -> None:
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "kyma_diagnostics", "queues"],
        env={**os.environ, "DEBUG_SOCKET": str(process.path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == "module-config: 0 waiting\n"


async def test_answers_are_bounded_and_printable(tmp_path: Path) -> None:
    path = tmp_path / "debug.sock"
    reports = {
        "large": lambda: ["x" * 1_000_000],
        "hostile": lambda: ["\x1b[2Jname"],
        "broken": lambda: [json.loads("{")],
    }
    async with debug_socket(path, reports):
        assert len(await asked(path, "large")) <= MAX_ANSWER_BYTES
        assert await asked(path, "hostile") == "?[2Jname\n"
        for command, why in (
            ("broken", "no answer: JSONDecodeError"),
            ("nonsense", "unknown command"),
            ("", "unknown command"),
            ("tasks all", "takes no argument"),
            ("log-level NOISY", "unknown level"),
        ):
            with pytest.raises(DebugFailed, match=why):
                await asked(path, command)
    assert not path.exists()
    with pytest.raises(DebugFailed, match="is the program running"):
        await asked(path, "tasks")


async def test_socket_of_a_dead_process_is_replaced_and_another_file_is_not(tmp_path: Path) -> None:
    path, other = tmp_path / "debug.sock", tmp_path / "file"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    async with debug_socket(path, {}):
        assert "tasks" in await asked(path, "tasks")
        with pytest.raises(DebugSocketUnusable, match="another process"):
            async with debug_socket(path, {}):
                pass
    other.touch()
    with pytest.raises(DebugSocketUnusable, match="another kind"):
        async with debug_socket(other, {}):
            pass


async def test_socket_in_a_folder_that_does_not_exist_is_refused_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(DebugSocketUnusable, match="No such file"):
        async with debug_socket(tmp_path / "none" / "debug.sock", {}):
            pass


@contextmanager
def answering(path: Path, parts: Iterable[bytes]) -> Iterator[None]:
    """Hold the path as another program: answer in parts, until the client has gone."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener, ThreadPoolExecutor(1) as thread:
        listener.bind(str(path))
        listener.listen()

        def answer() -> None:
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                connection.recv(1000)
                for part in parts:
                    connection.sendall(part)

        answered = thread.submit(answer)
        yield
        answered.result()


@pytest.mark.parametrize("status", [b"ok", b"error"])
def test_answer_of_another_program_is_printed_without_control_characters(tmp_path: Path, status: bytes) -> None:
    with answering(tmp_path / "socket", [status + b"\n\x1b]0;owned\x07 \xc2\x9b31m \xe2\x80\xaetxt\r\nnext\xff\n"]):
        try:
            text = ask(tmp_path / "socket", "tasks")
        except DebugFailed as error:
            text = str(error)
    assert "owned" in text
    assert all(each.isprintable() for each in text.split("\n"))


def test_answer_that_drips_is_given_up_after_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debug_client, "SECONDS", 0.3)
    pause = threading.Event()
    drops = (b"x" for _ in iter(lambda: pause.wait(0.05), True))
    with answering(tmp_path / "socket", drops), pytest.raises(DebugFailed, match=r"no whole answer within 0\.3 s"):
        ask(tmp_path / "socket", "tasks")


async def test_client_that_drips_is_served_for_a_time_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debug_server, "MAX_CLIENT_SECONDS", 0.3)

    async def drip(writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while True:
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(0.05)

    async with debug_socket(tmp_path / "socket", {}):
        reader, writer = await asyncio.open_unix_connection(tmp_path / "socket")
        dripping = asyncio.create_task(drip(writer))
        async with asyncio.timeout(60):
            assert await asyncio.to_thread(ask, tmp_path / "socket", "log-level")
        dripping.cancel()
        writer.close()
        del reader
