"""Leader election is on in both versions: which of them holds the Lease writes, and the other one waits."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import pytest
import pytest_asyncio

from kube_runtime import dump_yaml
from kyma_takeover.lease import HOLDER, LEASE, LEASES
from lifecycle_manager.process.crd_installation import apply_crds
from tests.integration.takeover.watchers import deliver_signed
from tests.kinds import DEPLOYMENTS
from tests.klm import run_klm
from tests.takeover_from_go import modules, recorder, surroundings
from tests.takeover_from_go.audit import GO, OURS, WRITES, AuditLog, Document
from tests.takeover_from_go.conftest import KCP, Stage
from tests.takeover_from_go.ours import OurLifecycleManager
from tests.takeover_from_go.pod import is_possible
from tests.takeover_from_go.program import GoLifecycleManager
from tests.takeover_from_go.recordings import LEASE_FILE
from tests.takeover_from_go.test_there_and_back import (
    FIRST,
    READY,
    REPLACED,
    SECOND,
    WatchedCluster,
    replaced,
    until_our_watcher,
    until_states,
)
from tests.waiting import consistently, eventually

SECONDS = 60
AT_ITS_START = "/customresourcedefinitions/"
"""The Go version notes the stored versions of its CRDs when it starts, before it leads."""
POD = "klm-controller-manager-7d9f8c6b5-x2x4z"
ALL_READY = dict.fromkeys(("", *modules.CHOSEN[SECOND]), "Ready")


@pytest.fixture(scope="module")
def pod() -> str:
    return POD if is_possible() else ""


@pytest.fixture
def leading(go: GoLifecycleManager) -> GoLifecycleManager:
    """The Go version, which elects a leader."""
    if not go.pod:
        pytest.skip("the Go version elects a leader in a Pod only, and unshare can't give it one here")
    return go


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def ours(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[OurLifecycleManager]:
    """This version, not started yet, with leader election too."""
    folder = tmp_path_factory.mktemp("ours")
    options = {**stage.our_options, "leader_elect": True, "replica_name": "ours-0"}
    process = OurLifecycleManager(stage.kubeconfig, folder, options)
    try:
        yield process
    finally:
        await process.kill()


async def spec_of_lease(stage: Stage) -> Document:
    spec: Document = (await stage.kcp.get(LEASES, LEASE, KCP))["spec"]
    return spec


async def holder(stage: Stage) -> str:
    return str((await spec_of_lease(stage)).get("holderIdentity") or "")


async def is_held_by_go(stage: Stage) -> bool:
    return (await holder(stage)).startswith(POD)


def writes(audit: Iterable[AuditLog], agent: str) -> list[tuple[str, str]]:
    """Return the time and the request of each write of a program, Leases and Events excepted, oldest first."""
    return sorted(
        (each["requestReceivedTimestamp"], f"{each['verb']} {each['requestURI']}")
        for log in audit
        for each in log.requests(agent)
        if each["verb"] in WRITES
        and each["responseStatus"]["code"] < 300
        and "dryRun" not in each["requestURI"]
        and (each.get("objectRef") or {}).get("resource") not in {"leases", "events"}
        and not (agent == GO and AT_ITS_START in each["requestURI"] and each["requestURI"].endswith("/status"))
    )


async def scale(stage: Stage, replicas: int) -> None:
    patch = {"spec": {"replicas": replicas}}
    await stage.kcp.merge_patch(DEPLOYMENTS, surroundings.DEPLOYMENT, patch, KCP, field_manager="gitops")


async def until_waiting(ours: OurLifecycleManager, name: str) -> None:
    """Wait until this version says that it waits for a holder of the Lease."""

    async def says_why() -> bool:
        code, text = await ours.readiness()
        return code == 503 and f"is held by {name}" in text

    await eventually(says_why, what=f"this version waits for {name}", within=SECONDS)


async def until_ready(stage: Stage) -> None:
    await until_states(stage, FIRST, READY)
    await until_states(stage, SECOND, ALL_READY)


async def test_go_version_holds_the_lease_and_works(stage: Stage, leading: GoLifecycleManager) -> None:
    await until_ready(stage)
    spec = await spec_of_lease(stage)
    assert spec["holderIdentity"].startswith(f"{POD}_")
    lease = recorder.lasting(await stage.kcp.get(LEASES, LEASE, KCP))
    lease["metadata"]["uid"] = "00000000-0000-4000-8000-000000000000"
    text = recorder.TIME.sub("2026-01-01T00:00:00.000000Z", dump_yaml(lease)).replace(
        spec["holderIdentity"], f"{POD}_1"
    )
    if recorder.is_requested():
        LEASE_FILE.parent.mkdir(exist_ok=True)
        LEASE_FILE.write_text(text)
    assert text == LEASE_FILE.read_text()


async def test_ours_works_only_when_the_lease_of_a_go_version_that_restarted_has_run_out(
    stage: Stage, leading: GoLifecycleManager, before: dict[str, str], ours: OurLifecycleManager, tmp_path: Path
) -> None:
    await apply_crds(stage.kcp)  # as the chart does
    audit = stage.audit()
    await ours.start()
    await until_waiting(ours, POD)
    first = await holder(stage)

    async with asyncio.TaskGroup() as tasks:
        adopting = tasks.create_task(run_klm(stage.kubeconfig, "adopt", "--yes"))
        assert leading.child is not None
        await leading.child.kill()  # and is started again, unless its Deployment was scaled to zero before
        result = await adopting
    assert result.code == 0, result.text + result.errors

    await eventually(ours.is_ready, what="this version works", within=SECONDS)
    assert await holder(stage) == HOLDER != first
    await signal_from_watchers(stage, tmp_path)
    await until_ready(stage)
    by_go, by_us = writes(audit, GO), writes(audit, OURS)
    assert by_go[-1] < by_us[0]
    assert replaced(before, await stage.identities()) == REPLACED


async def test_go_version_that_is_scaled_up_again_waits(
    stage: Stage, leading: GoLifecycleManager, ours: OurLifecycleManager
) -> None:
    audit = stage.audit()
    await scale(stage, 1)
    await eventually(lambda: leading.child is not None, what="the Go version runs")

    async def is_held_by_ours() -> bool:
        return await holder(stage) == HOLDER

    await consistently(is_held_by_ours, lasting=10, what="the Lease is ours")
    await ours.kill()
    await ours.start()
    await eventually(ours.is_ready, what="this version works again", within=SECONDS)
    await consistently(is_held_by_ours, lasting=10, what="the Lease is ours")
    await until_ready(stage)
    assert writes(audit, GO) == []


async def test_nothing_is_written_by_ours_once_the_go_version_took_the_lease_from_it(
    stage: Stage, leading: GoLifecycleManager, ours: OurLifecycleManager, before: dict[str, str], tmp_path: Path
) -> None:
    ours.pause()
    await eventually(lambda: is_held_by_go(stage), what="the Go version took the Lease", within=120, every=0.5)
    audit = stage.audit()
    ours.resume()
    await eventually(lambda: ours.has_ended, what="this version has ended", within=SECONDS)
    await ours.start()
    await until_waiting(ours, POD)
    assert writes(audit, OURS) == []

    audit = stage.audit()
    await scale(stage, 0)
    await eventually(ours.is_ready, what="this version works again", within=SECONDS)
    await signal_from_watchers(stage, tmp_path)
    await until_ready(stage)
    by_go, by_us = writes(audit, GO), writes(audit, OURS)
    assert max(by_go, default=("", "")) < by_us[0]
    assert replaced(before, await stage.identities()) <= REPLACED


async def test_way_back_gives_the_lease_up_at_once(
    stage: Stage, leading: GoLifecycleManager, ours: OurLifecycleManager, before: dict[str, str]
) -> None:
    await ours.stop()
    assert await holder(stage) == HOLDER
    audit = stage.audit()
    result = await run_klm(stage.kubeconfig, "adopt", "--back", "--yes")
    assert result.code == 0, result.text + result.errors
    await eventually(lambda: is_held_by_go(stage), what="the Go version took the Lease", within=30)
    await until_ready(stage)
    assert writes(audit, OURS) == []
    assert replaced(before, await stage.identities()) <= REPLACED


async def signal_from_watchers(stage: Stage, folder: Path) -> None:
    """Have the Watchers of this version send an event, without which a Kyma does not become Ready."""
    for number, skr in enumerate(stage.skrs):
        await until_our_watcher(skr)
        (folder / str(number)).mkdir(parents=True)
        await deliver_signed(WatchedCluster(skr, stage.event_port), folder / str(number))
