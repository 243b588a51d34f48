"""`klm` as an operator runs it: with a kubeconfig, by its output and exit code."""

import asyncio
import io
import os
import sys
import threading
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

from lifecycle_manager.cli import app

KLM = Path(sys.executable).with_name("klm")
SECONDS = 60
_ONE_AT_A_TIME = threading.Lock()
"""A process has one output and one environment."""


@dataclass(frozen=True)
class Output:
    """What a run of `klm` printed, and its exit code."""

    code: int
    text: str
    errors: str

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()


async def run_klm(kubeconfig: Path, *arguments: str, **environment: str) -> Output:
    """Run it in a thread of this process: a process of its own imports for longer than most commands take."""
    async with asyncio.timeout(SECONDS):
        return await asyncio.to_thread(_run, arguments, {"KUBECONFIG": str(kubeconfig), **environment})


async def run_klm_process(kubeconfig: Path, *arguments: str, program: Path = KLM, **environment: str) -> Output:
    """Run it as a process, where that is what the test is about: another version, or what a shell asks."""
    process = await asyncio.create_subprocess_exec(
        program,
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "KUBECONFIG": str(kubeconfig), **environment},
    )
    async with asyncio.timeout(SECONDS):
        text, errors = await process.communicate()
    assert process.returncode is not None
    return Output(process.returncode, text.decode(), errors.decode())


def exit_as_klm(kubeconfig: Path, *arguments: str) -> None:
    """End this process as `klm` does."""
    sys.exit(_run(arguments, {"KUBECONFIG": str(kubeconfig)}).code)


def _run(arguments: tuple[str, ...], environment: dict[str, str]) -> Output:
    text, errors = io.StringIO(), io.StringIO()
    with _ONE_AT_A_TIME, pytest.MonkeyPatch.context() as variables, redirect_stdout(text), redirect_stderr(errors):
        for name, value in environment.items():
            variables.setenv(name, value)
        with pytest.raises(SystemExit) as end:
            app(arguments, prog_name="klm")
    assert isinstance(end.value.code, int)
    return Output(end.value.code, text.getvalue(), errors.getvalue())
