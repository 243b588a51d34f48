"""`klm` as an operator runs it: a process with a kubeconfig, whose output is read."""

import asyncio
import os
import sys
from dataclasses import dataclass
from pathlib import Path

KLM = Path(sys.executable).with_name("klm")


@dataclass(frozen=True)
class Output:
    """What a run of `klm` printed, and its exit code."""

    code: int
    text: str
    errors: str

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()


async def run_klm(kubeconfig: Path, *arguments: str, program: Path = KLM, **environment: str) -> Output:
    process = await asyncio.create_subprocess_exec(
        program,
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "KUBECONFIG": str(kubeconfig), **environment},
    )
    async with asyncio.timeout(60):
        text, errors = await process.communicate()
    assert process.returncode is not None
    return Output(process.returncode, text.decode(), errors.decode())
