"""`klm demo --nodes` as a user runs it."""

import asyncio
from pathlib import Path

import msgspec

from tests.klm import KLM

SECONDS = 280.0


async def test_demo_verifies_every_step_in_pods(tmp_path: Path) -> None:
    arguments = ("demo", "--nodes", "--once", "--output=json", "--changes=10", f"--dir={tmp_path}")
    process = await asyncio.create_subprocess_exec(KLM, *arguments, stdout=asyncio.subprocess.PIPE)
    async with asyncio.timeout(SECONDS):
        printed, _ = await process.communicate()
    report = msgspec.json.decode(printed)
    assert [step for step in report["steps"] if not step["verified"]] == []
    programs = {station["program"] for station in report["timeline"]}
    assert programs == {"user", "skr-watcher", "lifecycle-manager", "module-manager"}
    assert process.returncode == 0
