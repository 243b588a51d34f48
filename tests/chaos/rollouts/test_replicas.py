"""Replicas that share the rollouts, as processes: one is frozen for longer than its Lease, another one killed.

The frozen one has just sent that it lets a cluster have the version: its request arrives when it goes on, when another
replica has decided otherwise meanwhile. What all of them wrote is judged afterwards, write by write.
"""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kube_runtime import Client, ClientOptions, KubeconfigPolicy
from kube_simulation import Answer, ApiRequest, ConnectionDropped, Rule, serve_simulation
from kube_simulation.rules import Proceed
from lifecycle_manager.contract.resources import KYMAS, MANIFESTS, MODULE_RELEASE_METAS
from lifecycle_manager_api import crds, names
from tests.chaos.rollouts.history import wrong_in
from tests.chaos.rollouts.replica import LEASE
from tests.unit.module_rollouts.fleet import CHANNEL, MODULE, released
from tests.unit.module_rollouts.small_fleet import (
    CLUSTERS,
    FIRST,
    KCP,
    SECOND,
    bare,
    create_fleet,
    is_completed,
)
from tests.waiting import consistently, eventually

FROZEN_SECONDS = LEASE.lease_seconds + 3.0
"""Longer than a Lease is valid."""
TAKE_OVER_SECONDS = 120.0
ROOT = Path(__file__).parents[3]
ROLLOUT = f"{MODULE}-{CHANNEL}-2"


@dataclass(eq=False)
class Replicas(Rule):
    """The processes, and what happens to the one that writes something decisive.

    - Who first lets a cluster have the second version is frozen before that is written, and until another replica has
      written the rollout; no cluster becomes Ready before `may_be_ready`
    - Who releases it to the first cluster of the last wave is killed once that is written
    """

    kubeconfig: Path
    processes: dict[str, asyncio.subprocess.Process] = field(default_factory=dict)
    frozen: str = ""
    killed: str = ""
    taken_over: asyncio.Event = field(default_factory=asyncio.Event)
    thawed: asyncio.Event = field(default_factory=asyncio.Event)
    may_be_ready: asyncio.Event = field(default_factory=asyncio.Event)
    is_frozen: asyncio.Event = field(default_factory=asyncio.Event)
    is_killed: asyncio.Event = field(default_factory=asyncio.Event)

    async def start(self) -> None:
        """Start one more."""
        name = f"replica-{len(self.processes)}"
        program = (sys.executable, "-m", "tests.chaos.rollouts.replica", str(self.kubeconfig), name)
        with self.kubeconfig.with_name(f"{name}.log").open("wb") as log:
            self.processes[name] = await asyncio.create_subprocess_exec(*program, cwd=ROOT, stderr=log)

    async def around(self, request: ApiRequest, proceed: Proceed) -> Answer:
        sender = request.user_agent.partition("/")[0]
        if sender not in self.processes or not request.is_write:
            return await proceed()
        if _lets_a_cluster_go(request):
            if not self.frozen:
                await self._freeze(sender)
            elif sender != self.frozen:
                self.taken_over.set()
        elif self.frozen and _makes_ready(request):
            await self.may_be_ready.wait()
        elif not self.killed and _releases_to_the_last_wave(request):
            await proceed()
            self.killed = sender
            self.processes[sender].kill()
            self.is_killed.set()
            raise ConnectionDropped
        return await proceed()

    async def _freeze(self, sender: str) -> None:
        self.frozen = sender
        process = self.processes[sender]
        process.send_signal(signal.SIGSTOP)
        try:
            self.is_frozen.set()
            await asyncio.sleep(FROZEN_SECONDS)
            if len(self.processes) > 1:
                async with asyncio.timeout(TAKE_OVER_SECONDS):
                    await self.taken_over.wait()
        finally:
            process.send_signal(signal.SIGCONT)
            self.thawed.set()

    async def stop(self) -> None:
        for each in self.processes.values():
            with suppress(ProcessLookupError):
                each.kill()
            await each.wait()


def _lets_a_cluster_go(request: ApiRequest) -> bool:
    is_status = "/modulerollouts/" in request.path and request.subresource == "status"
    return is_status and request.name == ROLLOUT and b'"underWay":[{' in request.body


def _makes_ready(request: ApiRequest) -> bool:
    return "/manifests/" in request.path and b'"state":"Ready"' in request.body


def _releases_to_the_last_wave(request: ApiRequest) -> bool:
    is_release = "/manifests/" in request.path and b'"release"' in request.body and SECOND.encode() in request.body
    return is_release and CLUSTERS[request.name.removesuffix(f"-{MODULE}")] == "other"


@asynccontextmanager
async def replicas_of(kubeconfig: Path, count: int) -> AsyncIterator[Replicas]:
    found = Replicas(kubeconfig)
    try:
        for _ in range(count):
            await found.start()
        yield found
    finally:
        await found.stop()


async def label(kcp: Client, name: str, value: str | None) -> None:
    patch = {"metadata": {"labels": {names.SKIP_RECONCILIATION: value}}}
    await kcp.merge_patch(KYMAS, name, patch, KCP, field_manager="user")


async def touch(kcp: Client) -> None:
    """Have the rollout reconciled, by a change of a Manifest that means nothing."""
    patch = {"metadata": {"annotations": {"touched": "once"}}}
    await kcp.merge_patch(MANIFESTS, f"c-{MODULE}", patch, KCP, field_manager="user")


@pytest.mark.parametrize("count", [1, 3])  # test_service has two
async def test_limits_hold_while_replicas_are_frozen_and_killed(count: int, tmp_path: Path) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": KCP}}
    async with serve_simulation(history=100_000) as simulation:
        cluster = simulation.cluster("kcp")
        cluster.create(namespace, *crds.all_crds())
        kubeconfig = tmp_path / "kcp.kubeconfig"
        kubeconfig.write_text(json.dumps(cluster.kubeconfig))
        options = ClientOptions(qps=0, timeout_seconds=60)
        policy = KubeconfigPolicy.permissive()
        async with (
            await Client.from_kubeconfig(cluster.kubeconfig, options=options, policy=policy) as kcp,
            replicas_of(kubeconfig, count) as replicas,
        ):
            await create_fleet(kcp)
            await eventually(lambda: is_completed(kcp, FIRST), within=TAKE_OVER_SECONDS)
            with cluster.ruled_by(replicas):
                await kcp.apply(MODULE_RELEASE_METAS, MODULE, bare(released(SECOND)), KCP, field_manager="user")
                await asyncio.wait_for(replicas.is_frozen.wait(), TAKE_OVER_SECONDS)
                await label(kcp, "a", "true")  # so that whoever takes over decides otherwise
                await asyncio.wait_for(replicas.thawed.wait(), 2 * TAKE_OVER_SECONDS)

                async def is_right() -> bool:
                    assert wrong_in(cluster.changes()) == []
                    return True

                await touch(kcp)
                await consistently(is_right, lasting=5, what="the limits hold")
                await label(kcp, "a", None)
                replicas.may_be_ready.set()
                await asyncio.wait_for(replicas.is_killed.wait(), TAKE_OVER_SECONDS)
                await replicas.start()
                await eventually(lambda: is_completed(kcp, SECOND), within=TAKE_OVER_SECONDS)
        assert wrong_in(cluster.changes()) == []
