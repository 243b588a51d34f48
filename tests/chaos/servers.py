"""One etcd and one API server, on an event loop of their own that goes on between the tests, to be ended at will."""

import asyncio
import shutil
import ssl
import tempfile
import threading
from base64 import b64encode
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx

from kyma_local.binaries import find_binaries
from kyma_local.certificates import create_local_ca
from kyma_local.cluster import LocalCluster
from kyma_local.etcd import LocalEtcd

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Servers:
    """The processes, and what it takes to speak to them."""

    etcd: LocalEtcd
    cluster: LocalCluster
    _loop: asyncio.AbstractEventLoop

    @classmethod
    @contextmanager
    def start(cls) -> Iterator["Servers"]:
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, name="servers")
        thread.start()
        try:
            with tempfile.TemporaryDirectory(prefix="klm-") as scratch:
                yield from cls._run(Path(scratch), loop)
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    @classmethod
    def _run(cls, folder: Path, loop: asyncio.AbstractEventLoop) -> Iterator["Servers"]:
        etcd = LocalEtcd(find_binaries(), folder)
        socket = folder / "egress"
        cluster = LocalCluster("chaos", folder / "chaos", etcd.binaries, create_local_ca(), etcd, socket)
        servers = cls(etcd, cluster, loop)

        def wait_for(work: Coroutine[Any, Any, None]) -> None:
            asyncio.run_coroutine_threadsafe(work, loop).result()

        try:
            wait_for(etcd.start())
            wait_for(cluster.start())
            yield servers
        finally:
            wait_for(cluster.stop())
            wait_for(etcd.stop())

    async def end_api_server(self, grace_seconds: float) -> None:
        """Ask the API server to end, and end it when it does not within the grace time; 0 is no farewell at all."""
        await self.on_their_loop(self.cluster.stop_api_server(grace_seconds=grace_seconds))

    async def end_etcd(self, grace_seconds: float) -> None:
        (child,) = self.etcd.children
        await self.on_their_loop(child.stop(grace_seconds))

    async def start_again(self) -> None:
        if not self.etcd.children or self.etcd.children[0].returncode is not None:
            await self.on_their_loop(self.etcd.start_again())
        if not self.cluster.children:
            await self.on_their_loop(self.cluster.start_api_server())

    async def back_up(self) -> Path:
        """Copy what etcd has stored, ending etcd for that."""
        copy = self.etcd.directory / "backup"
        await self.end_etcd(0)
        await asyncio.to_thread(shutil.copytree, self.etcd.directory / "etcd", copy)
        await self.start_again()
        return copy

    async def restore(self, backup: Path, *, beyond: int = 0) -> None:
        """Put a copy in the place of what etcd has stored, ending the servers for that.

        Its revisions are raised beyond one, and those before are compacted, as `etcdutl snapshot restore` does with
        `--bump-revision` and `--mark-compacted`.
        """
        stored = self.etcd.directory / "etcd"
        await self.end_api_server(0)
        await self.end_etcd(0)
        await asyncio.to_thread(shutil.rmtree, stored)
        await asyncio.to_thread(backup.rename, stored)
        if beyond:
            await self.on_their_loop(self.etcd.start_again())
            await self._raise_revisions(beyond)
        await self.start_again()

    async def _raise_revisions(self, beyond: int) -> None:
        url, *files = (flag.partition("=")[2] for flag in self.etcd.client_flags)
        context = ssl.create_default_context(cafile=files[0])
        context.load_cert_chain(files[1], files[2])
        async with httpx.AsyncClient(base_url=url, verify=context, trust_env=False) as client:
            revision, put = 0, {"key": b64encode(b"/raised").decode(), "value": ""}
            while revision <= beyond:
                written = (await client.post("/v3/kv/put", json=put)).raise_for_status().json()
                revision = int(written["header"]["revision"])
            compacted = await client.post("/v3/kv/compaction", json={"revision": str(revision), "physical": True})
            compacted.raise_for_status()

    async def on_their_loop(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something with the processes, where they belong."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))
