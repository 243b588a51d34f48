"""Real API servers on this machine: one etcd, a control plane (KCP) and user clusters (SKRs), all on loopback."""

import asyncio
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from kyma_local.binaries import Binaries, find_binaries
from kyma_local.certificates import create_local_ca
from kyma_local.cluster import LocalCluster
from kyma_local.etcd import LocalEtcd
from kyma_local.starting import StartFailed, has_ended

__all__ = ["LocalCluster", "LocalClusters", "StartFailed"]


@dataclass(frozen=True, eq=False)
class LocalClusters:
    """A control plane and its user clusters."""

    directory: Path
    kcp: LocalCluster
    skrs: tuple[LocalCluster, ...]
    etcd: LocalEtcd

    @classmethod
    @asynccontextmanager
    async def start(
        cls,
        *,
        skrs: int = 1,
        directory: Path | None = None,
        audit: bool = False,
        workloads: bool = False,
        binaries: Binaries | None = None,
    ) -> AsyncIterator["LocalClusters"]:
        """Start etcd and the API servers concurrently; stop them at the end. Raises StartFailed, BinariesMissing.

        The state in `directory` is kept for the next run; without `directory` it is deleted. `workloads` creates Pods
        of Deployments, but nothing runs them. By default the binaries have the pinned versions.
        """
        programs = binaries if binaries is not None else await asyncio.to_thread(find_binaries)
        # The path of a unix socket is limited to 107 bytes; that of `directory` may be longer.
        with tempfile.TemporaryDirectory(prefix="klm-") as scratch:
            folder = directory or Path(scratch) / "clusters"
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            async with _etcd(programs, folder) as etcd:
                ca = create_local_ca()
                kcp = LocalCluster(
                    "kcp",
                    folder / "kcp",
                    programs,
                    ca,
                    etcd,
                    Path(scratch) / "0",
                    with_controllers=True,
                    with_workloads=workloads,
                    audit=audit,
                )
                others = tuple(
                    LocalCluster(
                        f"skr-{n}",
                        folder / f"skr-{n}",
                        programs,
                        ca,
                        etcd,
                        Path(scratch) / f"{n}",
                        with_workloads=workloads,
                        audit=audit,
                    )
                    for n in range(1, skrs + 1)
                )
                async with _running((kcp, *others)):
                    yield cls(folder, kcp, others, etcd)

    async def first_ended(self) -> StartFailed:
        """Wait until one of the programs ends by itself; return the error that describes it."""
        children = [*self.etcd.children, *(child for cluster in (self.kcp, *self.skrs) for child in cluster.children)]
        waiting = {asyncio.ensure_future(child.process.wait()): child for child in children}
        try:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waiting:
                each.cancel()
        return has_ended(waiting[done.pop()])


@asynccontextmanager
async def _running(clusters: tuple[LocalCluster, ...]) -> AsyncGenerator[None, None]:
    """Start clusters and their egress proxies, and stop them at the end. Raises StartFailed."""
    try:
        try:
            async with asyncio.TaskGroup() as starting:
                for cluster in clusters:
                    starting.create_task(cluster.start())
        except* StartFailed as failed:
            raise failed.exceptions[0] from None
        async with asyncio.TaskGroup() as tasks:
            listening = [asyncio.Event() for _ in clusters]
            serving = [
                tasks.create_task(cluster.serve_egress(event.set))
                for cluster, event in zip(clusters, listening, strict=True)
            ]
            for event in listening:
                await event.wait()
            yield
            for task in serving:
                task.cancel()
    finally:
        for cluster in clusters:
            await cluster.stop()


@asynccontextmanager
async def _etcd(binaries: Binaries, folder: Path) -> AsyncGenerator[LocalEtcd, None]:
    """Run etcd. Raises StartFailed."""
    etcd = LocalEtcd(binaries, folder)
    await etcd.start()
    try:
        yield etcd
    finally:
        await etcd.stop()
