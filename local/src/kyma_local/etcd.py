"""The storage of the local clusters: one etcd on loopback, which keeps its ports and data across restarts."""

from dataclasses import dataclass, field
from pathlib import Path

import httpx

from kyma_local.binaries import Binaries
from kyma_local.ports import free_port
from kyma_local.processes import ChildProcess
from kyma_local.starting import ATTEMPTS, PortTaken, answers, start_server


@dataclass(eq=False)
class LocalEtcd:
    """One etcd for all API servers of a run."""

    binaries: Binaries
    directory: Path
    port: int = field(default_factory=free_port)
    peer_port: int = field(default_factory=free_port)
    _child: ChildProcess | None = field(default=None, init=False)

    @property
    def url(self) -> str:
        """The URL for the API servers."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def children(self) -> tuple[ChildProcess, ...]:
        """Its process, while it runs."""
        return () if self._child is None else (self._child,)

    async def start(self) -> None:
        """Start it for the first time, on free ports. Raises StartFailed."""
        for attempt in range(ATTEMPTS):
            try:
                await self.start_again()
            except PortTaken:
                if attempt == ATTEMPTS - 1:
                    raise
                self.port, self.peer_port = free_port(), free_port()
            else:
                return

    async def start_again(self) -> None:
        """Start it with its previous data and ports. Raises StartFailed."""
        peer = f"http://127.0.0.1:{self.peer_port}"
        command = [
            str(self.binaries.etcd),
            f"--data-dir={self.directory / 'etcd'}",
            f"--listen-client-urls={self.url}",
            f"--advertise-client-urls={self.url}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--log-level=error",
        ]
        log = self.directory / "etcd.log"
        async with httpx.AsyncClient(trust_env=False) as client:
            self._child = await start_server("etcd", command, log, lambda: answers(client, f"{self.url}/health"))

    async def stop(self) -> None:
        """Stop it; its data is kept."""
        child, self._child = self._child, None
        if child is not None:
            await child.stop()
