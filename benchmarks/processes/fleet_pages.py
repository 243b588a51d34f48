"""Pages of a fleet as browsers open them: loaded, and kept open for live updates. The token is any."""

import asyncio
import html
import re
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx

HEADERS = {"Authorization": "Bearer of-the-benchmark"}
_TAG = re.compile(r"<[^>]+>")


def text_of(page: str) -> str:
    """Return what a page says, as one line."""
    return " ".join(html.unescape(_TAG.sub("", page)).split())


async def load(client: httpx.AsyncClient, path: str) -> tuple[str, float]:
    """Return a page and the seconds until all of it was there."""
    began = time.perf_counter()
    answer = await client.get(path, headers=HEADERS)
    answer.raise_for_status()
    return answer.text, time.perf_counter() - began


@asynccontextmanager
async def open_pages(address: str, number: int) -> AsyncGenerator[None, None]:
    """Keep pages of the fleet open until the block ends, in a process of their own that reads their updates."""
    if not number:
        yield
        return
    command = (sys.executable, "-m", "benchmarks.processes.fleet_pages", address, str(number))
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        async with asyncio.timeout(120):
            assert await process.stdout.readline() == b"open\n"
        yield
    finally:
        process.terminate()
        await process.wait()


async def _follow_all(address: str, number: int) -> None:
    opened = asyncio.Semaphore(0)

    async def follow(client: httpx.AsyncClient) -> None:
        await load(client, "/")
        async with client.stream("GET", "/live?shown=-1", headers=HEADERS) as stream:
            stream.raise_for_status()
            opened.release()
            async for _ in stream.aiter_raw():
                pass

    limits = httpx.Limits(max_connections=2 * number + 2)
    async with (
        httpx.AsyncClient(base_url=address, timeout=60, limits=limits, trust_env=False) as client,  # a ping each 15 s
        asyncio.TaskGroup() as tasks,
    ):
        for _ in range(number):
            tasks.create_task(follow(client))
        for _ in range(number):
            await opened.acquire()
        print("open", flush=True)


if __name__ == "__main__":
    asyncio.run(_follow_all(sys.argv[1], int(sys.argv[2])))
