"""The benchmarks of the runtime run, at a small size and without peers. Their figures are not checked."""

import asyncio
import os
import sys
from pathlib import Path

import msgspec
import pytest

TIMEOUT_SECONDS = 240.0
PROGRAMS = {
    "kube_runtime_cache": ("--objects=100", "--starts=1", "--idle-seconds=0.1"),
    "kube_runtime_queue": ("--keys=1000", "--rounds=1"),
    "kube_runtime_reconciles": ("--things=50", "--rounds=1"),
}


@pytest.mark.parametrize("program", PROGRAMS)
async def test_benchmark_prints_its_figures(program: str, kcp: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        f"benchmarks.{program}",
        "--no-peers",
        *PROGRAMS[program],
        env={**os.environ, "KUBE_RUNTIME_KUBECONFIG": str(kcp)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            printed, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()

    figures = [msgspec.json.decode(line) for line in printed.splitlines()]
    assert figures, errors.decode()
    assert all(figure["name"].startswith(program) for figure in figures)
