"""The operator in the README does what it says, run as a program of its own."""

import asyncio
import re
import signal
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

from kube_runtime import Client
from tests.kinds import CONFIG_MAPS
from tests.waiting import eventually

EXAMPLE, *_ = re.findall(r"```python\n(.*?)```", Path("libraries/kube_runtime/README.md").read_text(), re.DOTALL)


async def test_example_of_the_readme_works(client: Client, kcp: Path, namespace: str) -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", EXAMPLE, str(kcp), namespace, stderr=PIPE)
    try:
        greeting = {"metadata": {"name": "one"}, "data": {"greeting": "hello"}}
        await client.create(CONFIG_MAPS, greeting, namespace, field_manager="test")

        async def replied() -> bool:
            found = await client.get(CONFIG_MAPS, "one", namespace)
            return bool(found["data"].get("reply") == "hello yourself")

        await eventually(replied)
        process.send_signal(signal.SIGINT)
        _, errors = await process.communicate()
        assert (process.returncode, "Traceback" in errors.decode()) == (0, False), errors.decode()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
