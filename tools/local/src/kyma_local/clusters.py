"""Real API servers on this machine: one etcd, a control plane (KCP) and user clusters (SKRs), all on loopback."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from kyma_local.binaries import find_binaries
from kyma_local.cache import Binaries
from kyma_local.certificates import create_local_ca
from kyma_local.claims import scratch_folder
from kyma_local.cluster import AuditLevel, LocalCluster
from kyma_local.etcd import LocalEtcd
from kyma_local.nodes.network import NodeNetwork, joined_networks
from kyma_local.nodes.node import LocalNode, Nodes, running_nodes
from kyma_local.processes import ChildProcess
from kyma_local.starting import StartFailed, has_ended

__all__ = ["LocalCluster", "LocalClusters", "StartFailed"]


@dataclass(frozen=True, eq=False)
class LocalClusters:
    """A control plane and its user clusters."""

    directory: Path
    kcp: LocalCluster
    skrs: tuple[LocalCluster, ...]
    etcd: LocalEtcd
    nodes: tuple[LocalNode, ...] = ()

    @classmethod
    @asynccontextmanager
    async def start(
        cls,
        *,
        skrs: int = 1,
        directory: Path | None = None,
        audit: AuditLevel | None = None,
        workloads: bool = False,
        nodes: Nodes | None = None,
        binaries: Binaries | None = None,
        fsync: bool = False,
        flags: tuple[str, ...] = (),
    ) -> AsyncIterator["LocalClusters"]:
        """Start etcd and the API servers concurrently; stop them at the end.

        The state in `directory` is kept for the next run; without `directory` it is deleted. `workloads` creates Pods
        of Deployments, but nothing runs them; `nodes` runs them, on a node for each cluster. By default the binaries
        have the pinned versions. With `fsync` etcd is as slow as in production. `flags` are further options of the API
        servers. Raises StartFailed, BinariesMissing.
        """
        programs = binaries if binaries is not None else await asyncio.to_thread(find_binaries)
        # The path of a unix socket is limited to 107 bytes; that of `directory` may be longer.
        async with AsyncExitStack() as stack:
            scratch = stack.enter_context(scratch_folder("klm-local-"))
            folder = directory or scratch / "clusters"
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            etcd = await stack.enter_async_context(_etcd(programs, folder, fsync=fsync))
            names = ("kcp", *(f"skr-{n}" for n in range(1, skrs + 1)))
            networks: tuple[NodeNetwork | None, ...] = (None,) * len(names)
            if nodes is not None:
                networks = stack.enter_context(joined_networks(len(names)))
            ca = create_local_ca()
            clusters = tuple(
                LocalCluster(
                    name,
                    folder / name,
                    programs,
                    ca,
                    etcd,
                    scratch / f"{number}",
                    with_controllers=name == "kcp",
                    with_workloads=workloads,
                    audit=audit,
                    node=network,
                    flags=flags,
                )
                for number, (name, network) in enumerate(zip(names, networks, strict=True))
            )
            await stack.enter_async_context(_running(clusters))
            running = await stack.enter_async_context(running_nodes(clusters, nodes)) if nodes is not None else ()
            yield cls(folder, clusters[0], clusters[1:], etcd, running)

    async def first_ended(self, others: Iterable[ChildProcess] = ()) -> StartFailed:
        """Wait until one of the programs, or of others, ends by itself; return the error that describes it."""
        started: tuple[LocalEtcd | LocalCluster | LocalNode, ...] = (self.etcd, self.kcp, *self.skrs, *self.nodes)
        children = [*(child for each in started for child in each.children), *others]
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
        async with asyncio.TaskGroup() as starting:
            for cluster in clusters:
                starting.create_task(cluster.start())
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
    except ExceptionGroup as failed:  # of which Python 3.11.2 would raise the first in another group after `except*`
        first, *others = failed.exceptions
        for each in others:
            first.add_note(str(each))
        raise first from None
    finally:
        await asyncio.gather(*(cluster.stop() for cluster in clusters))


@asynccontextmanager
async def _etcd(binaries: Binaries, folder: Path, *, fsync: bool) -> AsyncGenerator[LocalEtcd, None]:
    """Run etcd. Raises StartFailed."""
    etcd = LocalEtcd(binaries, folder, fsync)
    await etcd.start()
    try:
        yield etcd
    finally:
        await etcd.stop()
