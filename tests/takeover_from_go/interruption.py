"""Runs of `klm` with their writes, which are ended by kill -9 after the n-th one, in whichever cluster that is."""

import asyncio
import multiprocessing
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from kyma_local.cluster import LocalCluster
from tests.chaos.proxy import Asked, Proxy
from tests.klm import Output, exit_as_klm, run_klm

FOR_EVER = 3600.0
READING = frozenset({"GET", "HEAD"})
WITH_IMPORTS = multiprocessing.get_context("forkserver")
"""Starts processes that need not import `klm`, for which it takes longer than to work until it is ended."""
WITH_IMPORTS.set_forkserver_preload(["tests.klm", "kyma_takeover.adoption.command"])


@dataclass(eq=False)
class Interruptions:
    """Proxies before all clusters, which let so many writes pass and hold back the others."""

    proxies: dict[str, Proxy] = field(default_factory=dict)
    passing: float = field(default=float("inf"), init=False)
    passed: list[str] = field(default_factory=list, init=False)
    """What the last run wrote: collections of objects, in their order."""
    _reached: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    @classmethod
    @asynccontextmanager
    async def before(cls, *clusters: LocalCluster) -> AsyncGenerator["Interruptions", None]:
        found = cls()
        async with AsyncExitStack() as stack:
            for each in clusters:
                proxy = await stack.enter_async_context(Proxy.start(each.admin_kubeconfig))
                proxy.delay = found._delay
                found.proxies[each.name] = proxy
            yield found

    def kubeconfig(self, cluster: LocalCluster) -> str:
        """Return a kubeconfig by which a cluster is reached through its proxy."""
        return msgspec.json.encode(self.proxies[cluster.name].kubeconfig()).decode()

    async def run(self, kubeconfig: Path, *arguments: str) -> Output:
        """Run klm to its end."""
        self.passing, self.passed = float("inf"), []
        return await run_klm(kubeconfig, *arguments)

    async def interrupt(self, kubeconfig: Path, *arguments: str, after: int) -> int | None:
        """Run klm, and end it after so many writes; return None where it was ended so, else its exit code."""
        self.passing, self.passed = after, []
        self._reached.clear()
        process = WITH_IMPORTS.Process(target=exit_as_klm, args=(kubeconfig, *arguments))
        process.start()
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(process.sentinel, ended.set)
        waiting = {asyncio.create_task(each.wait()) for each in (ended, self._reached)}
        try:
            async with asyncio.timeout(120):
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                is_interrupted = not ended.is_set()
        finally:
            process.kill()
            await ended.wait()
            loop.remove_reader(process.sentinel)
            for each in waiting:
                each.cancel()
            process.join()
        return None if is_interrupted else process.exitcode

    def _delay(self, asked: Asked) -> float:
        if not _is_write(asked):
            return 0.0
        if len(self.passed) < self.passing:
            self.passed.append(asked.path.rpartition("/")[0])
            return 0.0
        self._reached.set()
        return FOR_EVER


def _is_write(asked: Asked) -> bool:
    """Tell whether a request changes anything; a review asks only what is allowed."""
    return asked.method not in READING and "authorization.k8s.io" not in asked.path and "dryRun" not in asked.query
