"""The process that makes large texts: what it answers, and what becomes of a text that ends it."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import cast

import msgspec
import pytest

from lifecycle_manager.module_config import text, text_process
from lifecycle_manager.module_config.reading import ModuleCrListing
from lifecycle_manager.module_config.text import Made, Task
from lifecycle_manager.module_config.text_process import LOST_SECONDS, TextProcess
from lifecycle_manager.skr.budget import CpuBudget
from tests import builders
from tests.unit.module_config.test_attacks import KIND, listed, maker, raw, skr
from tests.waiting import eventually

DOCUMENT = builders.infrastructure(nfsVolumes=[{"name": f"volume-{number}"} for number in range(2_000)])
TASK = Task(DOCUMENT["apiVersion"], DOCUMENT["kind"], msgspec.json.encode(DOCUMENT))


async def pid_of_process() -> int:
    """Return the id of the running process, which is started where it does not run."""
    process = TextProcess()
    made = await process.make(TASK)
    assert made is not None
    assert made.text == text.text_of(DOCUMENT)
    assert process.pid is not None
    return process.pid


async def test_text_is_made_without_the_interpreter_of_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(text, "dump_yaml")
    made = await TextProcess().make(TASK)
    assert made is not None
    assert made.text is not None
    assert made.seconds > 0


@pytest.mark.parametrize(("body", "reason"), [(b"[1", "undecodable"), (b'{"a":[%s1]}' % (b"1," * 60_000), "too_large")])
async def test_reason_why_there_is_no_text_is_answered(body: bytes, reason: str) -> None:
    made = await TextProcess().make(Task("v1", "Thing", body))
    assert made is not None
    assert made.text is None
    assert getattr(made, reason)


async def test_text_that_ends_the_process_is_lost_alone(capfd: pytest.CaptureFixture[str]) -> None:
    pid = await pid_of_process()
    assert await TextProcess().make(Task(cast("str", 1), "", b"")) == Made(seconds=LOST_SECONDS)
    assert "exit_code=1" in capfd.readouterr().out
    assert await pid_of_process() != pid


async def test_process_that_ended_meanwhile_is_replaced() -> None:
    pid = await pid_of_process()
    os.kill(pid, signal.SIGKILL)
    await eventually(lambda: "State:\tZ" in Path(f"/proc/{pid}/status").read_text())
    assert await pid_of_process() != pid


async def test_text_that_takes_too_long_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    pid = await pid_of_process()
    os.kill(pid, signal.SIGSTOP)
    with monkeypatch.context() as patch:
        patch.setattr(text_process, "MAX_SECONDS", 0.01)
        assert await TextProcess().make(TASK) == Made(seconds=LOST_SECONDS)
    assert await pid_of_process() != pid


async def test_text_for_which_nobody_waits_ends_and_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    pid, sent = await pid_of_process(), threading.Event()
    os.kill(pid, signal.SIGSTOP)
    with monkeypatch.context() as patch:
        patch.setattr(text_process, "send", lambda *_: sent.set())
        making = asyncio.create_task(TextProcess().make(TASK))
        await asyncio.to_thread(sent.wait)
    making.cancel()
    with pytest.raises(asyncio.CancelledError):
        await making
    assert await pid_of_process() != pid
    assert "ended" not in capfd.readouterr().out


async def test_lost_text_is_postponed_and_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    async def lost(_: TextProcess, __: Task) -> Made:
        return Made(seconds=LOST_SECONDS)

    monkeypatch.setattr(TextProcess, "make", lost)
    found = await ModuleCrListing([KIND]).read(skr(listed(raw("default", b'"%s"' % (b"x" * 20_000)))))
    made = maker(CpuBudget(burst=LOST_SECONDS / 2))
    (module_cr,) = (await made.with_texts(found, set(found.module_crs), {})).found.values()
    assert module_cr is not None
    assert module_cr.is_unread
    assert made.postponed == {module_cr.source}
    assert made.budget.wait(made.clock.monotonic()) > 0


async def test_process_ends_with_the_one_that_started_it() -> None:
    program = (
        "import asyncio, os\n"
        "from lifecycle_manager.module_config.text_process import Task, TextProcess\n"
        "async def main():\n"
        "    process = TextProcess()\n"
        "    await process.make(Task('v1', 'Thing', b'{\"metadata\":{}}'))\n"
        "    print(process.pid, flush=True)\n"
        "    os.kill(os.getpid(), 9)\n"
        "asyncio.run(main())\n"
    )
    ran = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=subprocess.PIPE)
    output, _ = await ran.communicate()
    assert ran.returncode == -signal.SIGKILL
    command_line = Path(f"/proc/{int(output)}/cmdline")
    await eventually(lambda: not command_line.exists() or not command_line.read_bytes())
