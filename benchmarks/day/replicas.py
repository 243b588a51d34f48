"""The replicas of Lifecycle Manager as processes, with the options of the chart, behind something like a Service."""

import asyncio
import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from kyma_local.ports import free_port
from kyma_local.processes import ChildProcess, start_child, tail
from lifecycle_manager_api import names
from tests.klm import KLM

PROBE_SECONDS = 1.0
START_SECONDS = 120.0
GRACE_SECONDS = 60.0


@dataclass(eq=False)
class Replica:
    """One replica: its process, and its ports. `is_ready` is what the last probe said."""

    name: str
    child: ChildProcess
    events: int
    metrics: int
    admission: int
    page: int
    debug: Path
    is_ready: bool = False


@dataclass(eq=False)
class Replicas:
    """The replicas that run; `retired` are those that were stopped, with their logs."""

    kubeconfig: Path
    folder: Path
    event_port: int
    more: tuple[str, ...] = ()
    running: list[Replica] = field(default_factory=list)
    retired: list[Replica] = field(default_factory=list)
    started: int = 0

    async def start(self) -> Replica:
        """Start one more, and wait until it is ready."""
        self.started += 1
        name = f"lifecycle-manager-{self.started}"
        events, metrics, admission, page = (free_port() for _ in range(4))
        replica_address = f"127.0.0.1:{free_port()}"
        command = [
            str(KLM),
            "run",
            f"--kubeconfig={self.kubeconfig}",
            f"--kyma-skr-listener-bind-address=127.0.0.1:{events}",
            f"--event-address=127.0.0.1:{self.event_port}",
            f"--metrics-bind-address=127.0.0.1:{metrics}",
            "--health-probe-bind-address=127.0.0.1:0",
            f"--replica-name={name}",
            f"--replica-bind-address={replica_address}",
            f"--replica-address={replica_address}",
            f"--leader-election-namespace={names.KCP_LEASE_NAMESPACE}",
            "--enable-webhooks",
            f"--webhook-bind-address=127.0.0.1:{admission}",
            f"--ui-bind-address=127.0.0.1:{page}",
            f"--debug-socket={(debug := self.folder / f'{name}.sock')}",
            "--allow-insecure-kubeconfigs",  # the simulated clusters have no users
            "--log-format=json",
            *self.more,
        ]
        child = await start_child(
            name, command, self.folder / f"{name}.log", {**os.environ, "TMPDIR": str(self.folder)}
        )
        replica = Replica(name, child, events, metrics, admission, page, debug)
        self.running.append(replica)
        async with asyncio.timeout(START_SECONDS):
            while not replica.is_ready:
                if child.returncode is not None:
                    raise RuntimeError(f"{name} ended:\n{tail(child.log, 40)}")
                await asyncio.sleep(0.1)
        return replica

    async def stop(self, replica: Replica) -> None:
        """Stop one as a Pod is deleted: no new connections, then SIGTERM."""
        self.running.remove(replica)
        self.retired.append(replica)
        await replica.child.stop(GRACE_SECONDS)

    async def kill(self, replica: Replica) -> None:
        """End one at once, as an eviction of a node that fails."""
        self.running.remove(replica)
        self.retired.append(replica)
        await replica.child.kill()

    async def probe(self) -> None:
        """Keep `is_ready` current, until cancelled."""
        async with httpx.AsyncClient(timeout=5, trust_env=False) as client:
            while True:
                for each in list(self.running):
                    each.is_ready = False if each.child.returncode is not None else await _is_ready(client, each)
                await asyncio.sleep(PROBE_SECONDS)

    def ready(self, port: str) -> list[int]:
        """Return a port of each replica that is ready."""
        return [getattr(each, port) for each in self.running if each.is_ready]

    async def close(self) -> None:
        """Stop all."""
        for each in list(self.running):
            with suppress(ProcessLookupError):
                await self.stop(each)


async def _is_ready(client: httpx.AsyncClient, replica: Replica) -> bool:
    try:
        return (await client.get(f"http://127.0.0.1:{replica.metrics}/readyz")).is_success
    except httpx.TransportError:
        return False
