"""Replicas of the service that share a simulated fleet; each is frozen in turn, for longer than its Lease is valid."""

import asyncio
import signal
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from kube_runtime import Client, ClientOptions, KubeconfigPolicy
from kube_runtime.leases.lease import LEASES, Lease
from kyma_demo import processes
from kyma_demo.rollout.fleet import FAILING, FIRST, GOOD, simulated_fleet
from kyma_demo.rollout.screen import RolloutScreen
from kyma_demo.rollout.story import RolloutStory
from kyma_local.ports import free_port
from kyma_local.processes import ChildProcess
from lifecycle_manager.contract.resources import MANIFESTS
from lifecycle_manager_api import names
from tests.chaos.rollouts.history import History, wrong_in
from tests.chaos.rollouts.replica import LEASE
from tests.chaos.rollouts.test_replicas import FROZEN_SECONDS, TAKE_OVER_SECONDS
from tests.waiting import eventually

CLUSTERS = 40
REPLICAS = 2  # test_replicas has one and three
POLL_SECONDS = 0.5
OPTIONS = (f"--leader-election-lease-duration={LEASE.lease_seconds}s",)


async def freeze_in_turn(kcp: Client, replicas: Mapping[str, ChildProcess]) -> None:
    """Freeze one replica after the other, the next once the one before renews its Lease again."""
    for name, each in replicas.items():
        each.process.send_signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(FROZEN_SECONDS)
            before = await lease_of(kcp, name)
        finally:
            each.process.send_signal(signal.SIGCONT)

        async def is_back(name: str = name, before: Lease | None = before) -> bool:
            return await lease_of(kcp, name) not in (None, before)

        await eventually(is_back, within=TAKE_OVER_SECONDS, what=f"Lease of {name}", every=POLL_SECONDS)


async def lease_of(kcp: Client, replica: str) -> Lease | None:
    found = (await kcp.list(LEASES, names.KCP_LEASE_NAMESPACE)).items
    return next((each for each in found if replica in each.spec.holder_identity), None)


async def has_begun(kcp: Client) -> bool:
    """Tell whether the second version was released to a cluster."""
    found = (await kcp.list(MANIFESTS, names.KCP_NAMESPACE)).items
    return any(each.status.release is not None and each.status.release.version == GOOD for each in found)


@pytest.mark.timeout(600)
async def test_replicas_of_the_service_keep_the_limits_while_each_is_frozen_in_turn(tmp_path: Path) -> None:
    async with simulated_fleet(CLUSTERS, pace=1.0, soak_seconds=2.0) as fleet, AsyncExitStack() as stack:
        kubeconfig = tmp_path / "kcp.yaml"
        kubeconfig.write_bytes(msgspec.json.encode(fleet.kcp.kubeconfig))
        kubeconfig.chmod(0o600)
        replicas: dict[str, ChildProcess] = {}
        for number in range(REPLICAS):
            program = processes.lifecycle_manager_of_simulation(kubeconfig, free_port(), free_port())
            name = f"replica-{number}"
            named = replace(program, name=name, command=(*program.command, f"--replica-name={name}", *OPTIONS))
            replicas[name] = await processes.start(named, tmp_path / "logs")
            stack.push_async_callback(replicas[name].stop)
        options, policy = ClientOptions(qps=0, timeout_seconds=60), KubeconfigPolicy.permissive()
        kcp = await stack.enter_async_context(
            await Client.from_kubeconfig(fleet.kcp.kubeconfig, options=options, policy=policy)
        )
        story = RolloutStory(fleet, kcp, RolloutScreen(Console(quiet=True)), has_watchers=False)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(story.run())
            await eventually(partial(has_begun, kcp), within=TAKE_OVER_SECONDS, every=POLL_SECONDS)
            await freeze_in_turn(kcp, replicas)
        assert [each.detail for each in story.steps if not each.verified] == []
        changes = fleet.kcp.changes()
    assert wrong_in(changes) == []
    history = History()
    for each in changes:
        history.note(each)
    assert [each.spec.spec.version for each in history.rollouts.values()] == [FIRST, GOOD, FAILING, GOOD]
    assert len(history.rollouts["keda-regular-2"].updates) == CLUSTERS
