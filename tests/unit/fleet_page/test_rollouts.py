"""Rollouts on the pages: which are shown, in which order, and to whom."""

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import httpx
import pytest

from kube_runtime import Resource
from kyma_fleet_page.access import AccessDecision
from kyma_fleet_page.app import create_app
from kyma_fleet_page.live import Live
from kyma_fleet_page.rollouts import MAX_WAVES, STANDINGS, last_completed, shown_rollouts, under_way
from kyma_fleet_page.streams import Streams
from kyma_fleet_page.templating import environment
from lifecycle_manager_api import ModuleReleaseMeta, ModuleRollout, WaveStatus
from tests import builders
from tests.page_sources import AnyRight, MadeUp
from tests.unit.fleet_page.rollouts import rollout

ADDRESS = "https://localhost"
TOKEN = {"Authorization": "Bearer good"}
SCRIPT = "<script>alert(1)</script>"


@dataclass
class Asked(AnyRight):
    """Lets a user see the page so many times; a stream ends after that."""

    times: int = 1_000_000

    async def of(self, _: str) -> AccessDecision:
        self.times -= 1
        return AccessDecision.ALLOWED if self.times > 0 else AccessDecision.UNKNOWN


class WithoutRollouts(Asked):
    """A user who may list everything but rollouts."""

    async def may_list(self, _: str, __: Resource[Any], ___: str) -> bool:
        return __.plural != "modulerollouts"


@dataclass
class Rollouts:
    """The cache of the page, which a test may change."""

    items: list[ModuleRollout] = field(default_factory=list)

    def list(self) -> tuple[ModuleRollout, ...]:
        return tuple(self.items)


def client(rollouts: Rollouts, access: AnyRight) -> httpx.AsyncClient:
    app = create_app(MadeUp({}, rollouts=rollouts.list), access, heartbeat_seconds=0.01)
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=ADDRESS, headers=TOKEN)


async def test_pages_say_alike_that_a_version_was_taken_back() -> None:
    spec = {"undoes": "api-gateway-regular-2", "version": "1.1.0", "formerVersion": "1.2.0"}
    known = Rollouts([rollout(phase="Completed"), rollout(revision=3, phase="Completed", spec=spec)])
    async with client(known, Asked()) as browser:
        undone = (await browser.get("/rollouts/api-gateway-regular-2")).text
        fleet = (await browser.get("/")).text
    assert ">TakenBack</span>" in undone
    assert "1.2.0 was taken back by api-gateway-regular-3, which returns to 1.1.0." in undone
    assert '<a href="/rollouts/api-gateway-regular-3">' in undone
    assert "waiting for wave europe" not in undone, "that was so before"
    visible = fleet.partition("<details>")[0]
    assert "api-gateway-regular-3 took 1.2.0 of api-gateway-regular-2 back: 1.1.0 is in force" in visible


def test_rollouts_that_wait_for_an_operator_come_first() -> None:
    phases = ("Progressing", "Completed", "Halted", "Superseded", "AwaitingApproval", "Soaking", "Paused", "Pending")
    found = under_way([rollout(f"module-{each.lower()}", phase=each) for each in phases])
    shown = [each.rollout.status.phase for each in found]
    assert shown == ["Halted", "AwaitingApproval", "Paused", "Progressing", "Soaking", "Pending"]


def test_undo_is_offered_where_there_is_a_version_to_go_back_to() -> None:
    first, later = shown_rollouts([rollout(revision=1, spec={"formerVersion": ""}), rollout("keda")])
    assert first.commands == ["klm rollout resume api-gateway-regular-1"]
    assert later.commands == ["klm rollout undo keda-regular-2", "klm rollout resume keda-regular-2"]


def test_last_completed_rollout_of_each_channel_is_shown() -> None:
    of_fast = rollout(phase="Completed", revision=9, spec={"channel": "fast", "version": "1.9.0"})
    found = last_completed(
        [
            rollout(phase="Completed", revision=3),
            rollout(phase="Completed", revision=2),
            rollout(phase="Superseded", revision=4),
            of_fast,
        ]
    )
    assert [each.name for each in found] == [of_fast.metadata.name, "api-gateway-regular-3"]


def test_parts_of_a_bar_add_up_to_the_clusters_of_the_wave() -> None:
    (_, europe, _) = shown_rollouts([rollout()])[0].waves
    parts = list(europe.parts)
    assert [each.words for each in parts] == [words for _, words, _ in STANDINGS]
    assert sum(each.clusters for each in parts) == europe.status.clusters
    assert parts[-1].start + parts[-1].width == pytest.approx(100)
    assert europe.is_current
    assert list(shown_rollouts([rollout(waves=[{"name": "empty"}])])[0].waves[0].parts) == []


def test_of_many_waves_those_around_the_current_one_are_shown() -> None:
    status = [WaveStatus(name=f"wave-{number}") for number in range(20)]
    done = [{"name": each.name, "completedAt": "2026-11-22T10:00:00Z"} for each in status[:9]]
    waves = [*done, *({"name": each.name} for each in status[9:])]
    shown = shown_rollouts([rollout(waves=waves)])[0].nearest_waves
    assert [each.status.name for each in shown] == [f"wave-{number}" for number in range(8, 8 + MAX_WAVES)]


async def test_rollout_is_shown_with_its_waves_and_the_cluster_that_failed_first() -> None:
    halted = rollout(
        failed={"kyma-00009": SCRIPT, "kyma-00001": "later"}, spec={"approvals": [{"wave": "europe", "by": SCRIPT}]}
    )
    async with client(Rollouts([halted]), AnyRight()) as browser:
        fleet = (await browser.get("/")).text
        page = (await browser.get(f"/rollouts/{halted.metadata.name}")).text
        assert (await browser.get("/rollouts/no")).status_code == 404
    assert fleet.index("What is wrong") < fleet.index("Rollouts") < fleet.index("Clusters</h2>")
    assert "/kymas/kyma-00009" in fleet
    assert "/kymas/kyma-00001" not in fleet
    for text in ("15 healthy", "5 soaking", "4 under way", "2 failed", "1 unreachable", "3 held", "10 waiting"):
        assert text in fleet
        assert text in page
    for text in (fleet, page):
        assert SCRIPT not in text
        assert " style=" not in text, "the content security policy refuses it"
    assert page.index("/kymas/kyma-00009") < page.index("/kymas/kyma-00001")


async def test_user_who_may_not_list_rollouts_sees_none() -> None:
    halted = rollout()
    async with client(Rollouts([halted]), WithoutRollouts()) as browser:
        assert "Rollouts" not in (await browser.get("/")).text
        missing = await browser.get(f"/rollouts/{halted.metadata.name}")
    assert missing.status_code == 404
    assert "1.2.0" not in missing.text


@pytest.mark.parametrize(("access", "shown"), [(Asked(20), True), (WithoutRollouts(20), False)])
async def test_stream_has_the_rollouts_that_the_user_may_list(access: AnyRight, shown: bool) -> None:
    async with asyncio.timeout(60), client(Rollouts([rollout()]), access) as browser:
        await browser.get("/")
        text = (await browser.get("/live?shown=-1")).text
    assert "event: rollouts" in text
    assert ("api-gateway" in text) is shown


async def test_change_of_a_rollout_alone_is_an_update() -> None:
    rollouts = Rollouts([rollout()])
    live = Live(lambda: (), rollouts.list, seconds=0.01)
    live.current()
    async with asyncio.timeout(60), live.updates(live.version) as updates:
        rollouts.items = [rollout(revision=3)]
        update = await updates.get()
    assert [each.spec.revision for each in update.fleet.rollouts] == [3]
    assert not update.reload
    assert not update.changed


async def test_page_of_a_module_is_loaded_anew_when_a_rollout_alone_changes() -> None:
    rollouts = Rollouts([rollout()])
    live = Live(lambda: (), rollouts.list, seconds=0.01)
    live.current()
    may_list = partial(AnyRight().may_list, "")
    stream = Streams(live, environment(), 10).fleet(live.version, {"only": "reload"}, may_list)
    async with asyncio.timeout(60), aclosing(stream):
        await anext(stream)
        rollouts.items = [rollout(revision=3)]
        while "event: reload" not in await anext(stream):
            pass


async def test_new_version_of_a_channel_is_an_update_even_at_once() -> None:
    releases: list[ModuleReleaseMeta] = []
    live = Live(lambda: (), tuple, lambda: releases, seconds=0.01)
    before = live.current()
    async with asyncio.timeout(60), live.updates(live.version) as updates:
        releases.append(builders.release("api", regular="1.2.0"))
        assert live.current() is not before, "another page is loaded at this moment"
        await updates.get()
