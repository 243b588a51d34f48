"""Two Lifecycle Managers replace the CA while users and Watchers go on: once, and no client fails."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest_asyncio

from kyma_demo.story import Story
from kyma_local.ports import free_port
from lifecycle_manager.resources import SECRETS, Secret
from lifecycle_manager.skr_webhook import ROTATE
from lifecycle_manager_api import names
from tests.integration.lifecycle_manager.programs import MANAGER, Manager, start_manager
from tests.integration.lifecycle_manager.replicas import FIRST, SECOND, Replicas, two_watchers
from tests.integration.lifecycle_manager.watching import (
    EVENTS,
    distrusted,
    is_well,
    kubelet,
    lines_of,
    moment,
    went_wrong,
)
from tests.waiting import eventually

CA_SECRET = "klm-watcher"
BESIDE = "lifecycle-manager-beside"
PHASE = "lifecycle_mgr_watcher_ca_phase{"
ISSUED = "lifecycle_mgr_watcher_certificates_issued_total"
STEPS = ("CAAnnounced", "CASwitched", "CAReplaced")
# The existing CA is valid for ten years, so its rotation is due as soon as these two start; the next one's is not.
DUE_AT_ONCE = ("--self-signed-ca-duration=87648h", "--self-signed-ca-renew-before=87600h")


@dataclass(frozen=True, eq=False)
class Managers:
    """Two Lifecycle Managers of one control plane, each with an event endpoint."""

    story: Story
    both: tuple[Manager, Manager]
    event_ports: tuple[int, int]
    began: datetime

    async def ca_secret(self) -> Secret:
        return await self.story.stage.kcp.get(SECRETS, CA_SECRET, names.KCP_NAMESPACE)

    async def reported_steps(self) -> Counter[str]:
        """Count the Events of each step since these two started."""
        events = await self.story.stage.kcp.list(
            EVENTS, names.KCP_NAMESPACE, field_selector=f"regarding.kind=Secret,regarding.name={CA_SECRET}"
        )
        return Counter(
            each["reason"] for each in events.items if datetime.fromisoformat(each["eventTime"]) >= self.began
        )

    async def every_step_is_reported(self) -> bool:
        """Tell whether there are Events of all steps; they are sent in the background."""
        return (await self.reported_steps()).keys() >= set(STEPS)

    async def refusals(self) -> float:
        """Count the events that were refused, without those that the other one did not take in time."""
        handed_over = await self.sums('lifecycle_mgr_event_refused_total{reason="not_handed_over"')
        return await self.sums("lifecycle_mgr_event_refused_total{") - handed_over

    async def sums(self, prefix: str) -> float:
        """Add up the samples of both whose name begins so."""
        samples = [sample for manager in self.both for sample in (await manager.metrics()).items()]
        return sum(value for name, value in samples if name.startswith(prefix))

    def refused_each_other(self) -> list[dict[str, Any]]:
        """Return how the two have failed to hand an event over to each other, but for time-outs."""
        return [
            line
            for name in (MANAGER, BESIDE)
            for line in lines_of(self.story.stage.logs / f"{name}.log", "events could not be handed over")
            if datetime.fromisoformat(line["time"]) >= self.began and "Timeout" not in line["error"]
        ]

    async def both_report(self, phase: str) -> bool:
        wanted = f'{PHASE}phase="{phase}"}}'
        return all([wanted in await manager.metrics() for manager in self.both])

    async def rotated(self, former: Secret) -> bool:
        """Tell whether another CA is in force, and its rotation has ended."""
        now = await self.ca_secret()
        return now.data["tls.crt"] != former.data["tls.crt"] and now.data.keys() == {"tls.crt", "tls.key", "ca.crt"}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def managers(story: Story) -> AsyncIterator[Managers]:
    cast = story.cast
    await cast.stop(MANAGER)
    beside, began = free_port(), moment()
    former = await story.stage.kcp.get(SECRETS, CA_SECRET, names.KCP_NAMESPACE)
    async with kubelet(story.stage):
        first, second = await asyncio.gather(
            start_manager(cast, *DUE_AT_ONCE),
            start_manager(
                cast,
                *DUE_AT_ONCE,
                f"--kyma-skr-listener-bind-address=127.0.0.1:{beside}",
                f"--webhook-bind-address=127.0.0.1:{free_port()}",
                name=BESIDE,
            ),
        )
        managers = Managers(story, (first, second), (cast.event_port, beside), began)
        await eventually(lambda: managers.rotated(former), within=120, what="the rotation that was due")
        await eventually(lambda: is_well(story.stage))
        yield managers
    for name in (BESIDE, MANAGER):
        await cast.stop(name)
    await start_manager(cast)
    await eventually(lambda: is_well(story.stage))


async def test_ca_that_is_due_is_replaced_once(managers: Managers) -> None:
    await eventually(lambda: managers.both_report("Stable"))
    await eventually(managers.every_step_is_reported)
    reported = await managers.reported_steps()
    assert [reported[step] for step in STEPS] == [1, 1, 1]


async def test_ca_is_replaced_and_no_client_of_either_fails(managers: Managers) -> None:
    story, former = managers.story, await managers.ca_secret()
    async with two_watchers(story, *managers.event_ports) as replicas:
        refused = await managers.refusals()
        issued = await managers.sums(ISSUED)
        before = {name: len(replicas.lines(name)) for name in (FIRST, SECOND)}
        patch = {"metadata": {"annotations": {ROTATE: "now"}}}
        await story.stage.kcp.merge_patch(SECRETS, CA_SECRET, patch, names.KCP_NAMESPACE)
        trusted = len(distrusted(story.stage))
        rounds = 0
        async with asyncio.timeout(240):
            while not await managers.rotated(former):
                await users_come_and_go(replicas, f"round-{rounds}")
                rounds += 1
        await eventually(lambda: managers.both_report("Stable"))
        await users_come_and_go(replicas, "after")
        for name in (FIRST, SECOND):
            assert not list(filter(went_wrong, replicas.lines(name)[before[name] :]))
            assert any(line["msg"] == "event delivered" for line in replicas.lines(name)[before[name] :])
        assert not managers.refused_each_other()
        assert distrusted(story.stage)[trusted:] == []
        assert await managers.refusals() == refused
        assert await managers.sums(ISSUED) > issued


async def users_come_and_go(replicas: Replicas, prefix: str) -> None:
    """Create objects at once, and delete them; the control plane receives the events of all."""
    created = await replicas.users_create(prefix)
    await replicas.control_plane_has(created)
    await replicas.users_delete(created)
