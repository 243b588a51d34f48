"""Two replicas of the Lifecycle Manager rotate the CA once, and no request of users or Watchers fails."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest_asyncio

from kyma_demo.walkthrough import Walkthrough
from kyma_local.ports import free_port
from lifecycle_manager.contract.resources import SECRETS, Secret
from lifecycle_manager.watcher_certificates.ca_store import ROTATE
from lifecycle_manager_api import names
from tests.integration.lifecycle_manager.event_path import (
    is_failure,
    is_watcher_ready,
    kubelet,
    lines_of,
    moment,
    tls_errors,
)
from tests.integration.lifecycle_manager.programs import MANAGER, Manager, start_manager
from tests.integration.lifecycle_manager.watcher_replicas import FIRST, SECOND, WatcherReplicas, two_watchers
from tests.kinds import EVENTS
from tests.waiting import eventually

CA_SECRET = "klm-watcher"
SECOND_MANAGER = "lifecycle-manager-second"
PHASE = "lifecycle_mgr_watcher_ca_phase{"
ISSUED = "lifecycle_mgr_watcher_certificates_issued_total"
STEPS = ("CAAnnounced", "CASwitched", "CAReplaced")
# The existing CA lives for ten years, so it is due when these two start; the next one is not.
DUE_AT_ONCE = ("--self-signed-ca-duration=87648h", "--self-signed-ca-renew-before=87600h")


@dataclass(frozen=True, eq=False)
class LifecycleManagerReplicas:
    """Two replicas of the Lifecycle Manager, each with an event endpoint."""

    walkthrough: Walkthrough
    both: tuple[Manager, Manager]
    event_ports: tuple[int, int]
    began: datetime

    async def ca(self) -> Secret:
        return await self.walkthrough.environment.kcp.get(SECRETS, CA_SECRET, names.KCP_NAMESPACE)

    async def reported_steps(self) -> Counter[str]:
        """Count the steps that Events have reported since these two started."""
        events = await self.walkthrough.environment.kcp.list(
            EVENTS, names.KCP_NAMESPACE, field_selector=f"regarding.kind=Secret,regarding.name={CA_SECRET}"
        )
        return Counter(
            each["reason"] for each in events.items if datetime.fromisoformat(each["eventTime"]) >= self.began
        )

    async def every_step_is_reported(self) -> bool:
        """Return whether there are Events of all steps; they are sent in the background."""
        return (await self.reported_steps()).keys() >= set(STEPS)

    async def refusals(self) -> float:
        """Count the refused events, without those that the other replica did not accept in time."""
        handed_over = await self.sums('lifecycle_mgr_event_refused_total{reason="not_handed_over"')
        return await self.sums("lifecycle_mgr_event_refused_total{") - handed_over

    async def sums(self, prefix: str) -> float:
        """Return the sum of the samples of both whose name has a prefix."""
        samples = [sample for manager in self.both for sample in (await manager.metrics()).items()]
        return sum(value for name, value in samples if name.startswith(prefix))

    def forwarding_errors(self) -> list[dict[str, Any]]:
        """Return the log lines of events that could not be forwarded to the other replica, without timeouts."""
        return [
            line
            for name in (MANAGER, SECOND_MANAGER)
            for line in lines_of(self.walkthrough.environment.logs / f"{name}.log", "events could not be handed over")
            if datetime.fromisoformat(line["time"]) >= self.began and "Timeout" not in line["error"]
        ]

    async def both_report(self, phase: str) -> bool:
        wanted = f'{PHASE}phase="{phase}"}}'
        return all([wanted in await manager.metrics() for manager in self.both])

    async def rotated(self, former: Secret) -> bool:
        """Return whether another CA is used and the rotation has ended."""
        now = await self.ca()
        return now.data["tls.crt"] != former.data["tls.crt"] and now.data.keys() == {"tls.crt", "tls.key", "ca.crt"}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def managers(walkthrough: Walkthrough) -> AsyncIterator[LifecycleManagerReplicas]:
    programs = walkthrough.programs
    await programs.stop(MANAGER)
    second_port, began = free_port(), moment()
    former = await walkthrough.environment.kcp.get(SECRETS, CA_SECRET, names.KCP_NAMESPACE)
    async with kubelet(walkthrough.environment):
        first, second = await asyncio.gather(
            start_manager(programs, *DUE_AT_ONCE),
            start_manager(
                programs,
                *DUE_AT_ONCE,
                f"--kyma-skr-listener-bind-address=127.0.0.1:{second_port}",
                f"--webhook-bind-address=127.0.0.1:{free_port()}",
                name=SECOND_MANAGER,
            ),
        )
        managers = LifecycleManagerReplicas(walkthrough, (first, second), (programs.event_port, second_port), began)
        await eventually(lambda: managers.rotated(former), within=120, what="rotation of the due CA")
        await eventually(lambda: is_watcher_ready(walkthrough.environment))
        yield managers
    for name in (SECOND_MANAGER, MANAGER):
        await programs.stop(name)
    await start_manager(programs)
    await eventually(lambda: is_watcher_ready(walkthrough.environment))


async def test_due_ca_is_rotated_once(managers: LifecycleManagerReplicas) -> None:
    await eventually(lambda: managers.both_report("Stable"))
    await eventually(managers.every_step_is_reported)
    reported = await managers.reported_steps()
    assert [reported[step] for step in STEPS] == [1, 1, 1]


async def test_rotation_of_the_ca_fails_no_client_of_either_replica(managers: LifecycleManagerReplicas) -> None:
    walkthrough, former = managers.walkthrough, await managers.ca()
    async with two_watchers(walkthrough, *managers.event_ports) as watchers:
        refused = await managers.refusals()
        issued = await managers.sums(ISSUED)
        before = {name: len(watchers.lines(name)) for name in (FIRST, SECOND)}
        patch = {"metadata": {"annotations": {ROTATE: "now"}}}
        await walkthrough.environment.kcp.merge_patch(SECRETS, CA_SECRET, patch, names.KCP_NAMESPACE)
        trusted = len(tls_errors(walkthrough.environment))
        rounds = 0
        async with asyncio.timeout(240):
            while not await managers.rotated(former):
                await create_and_delete(watchers, f"round-{rounds}")
                rounds += 1
        await eventually(lambda: managers.both_report("Stable"))
        await create_and_delete(watchers, "after")
        for name in (FIRST, SECOND):
            assert not list(filter(is_failure, watchers.lines(name)[before[name] :]))
            assert any(line["msg"] == "event delivered" for line in watchers.lines(name)[before[name] :])
        assert not managers.forwarding_errors()
        assert tls_errors(walkthrough.environment)[trusted:] == []
        assert await managers.refusals() == refused
        assert await managers.sums(ISSUED) > issued


async def create_and_delete(watchers: WatcherReplicas, prefix: str) -> None:
    """Create objects concurrently, and delete them; wait until the control plane knows."""
    created = await watchers.create(prefix)
    await watchers.wait_until_known(created)
    await watchers.delete(created)
