"""The Go version installs modules, this version takes them over and gives them back, and the Go version goes on."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest_asyncio

from kube_runtime import Client
from lifecycle_manager.contract.resources import KYMAS
from lifecycle_manager.process.crd_installation import apply_crds
from tests.integration.takeover.watchers import deliver_signed
from tests.kinds import CONFIG_MAPS, DEPLOYMENTS
from tests.klm import run_klm
from tests.takeover_from_go import modules, recorder, surroundings, writes
from tests.takeover_from_go.audit import Write
from tests.takeover_from_go.conftest import KCP, SKR, Stage
from tests.takeover_from_go.differing import differing_fields, unexpected
from tests.takeover_from_go.modules import EVENTING, LATER, MONITORING, SERVERLESS, STORAGE, TELEMETRY
from tests.takeover_from_go.played import samples_of
from tests.takeover_from_go.program import GoLifecycleManager
from tests.takeover_from_go.recordings import REGISTRY
from tests.takeover_from_go.writes import Writes
from tests.waiting import eventually, is_gone

SECONDS = 60
QUIET_SECONDS = 5
OF_MODULES = {"clusterroles", "configmaps", "customresourcedefinitions", "samples"}
MAX_WRITES = 2
"""To an object of a module: one patch of its field managers, and one apply."""
FIRST, SECOND = 0, 1
READY = dict.fromkeys(("", *modules.CHOSEN[FIRST]), "Ready")
SETTLED = {"": "Processing", "serverless": "Ready", "gateways": "Ready", "monitoring": "Unmanaged"}
BLOCKED = {"eventing": "Deleting", "storage": "Deleting"}
REPLACED = {
    f"skr-{number}/{kind}__kyma-system_{name}"
    for number in (1, 2)
    for kind, name in (
        ("Service", "skr-webhook-metrics"),
        ("NetworkPolicy", "kyma-project.io--metrics-to-watcher"),
        ("NetworkPolicy", "kyma-project.io--seed-to-watcher"),
        ("NetworkPolicy", "kyma-project.io--watcher-to-apiserver"),
        ("NetworkPolicy", "kyma-project.io--watcher-to-dns"),
    )
}
"""Objects of the Go version's Watcher that this version removes, and the Go version creates again."""
OF_THE_WATCHER = ("networkpolicies", "skr-webhook")
"""What is in the paths of the objects of the Watcher, which is another one in each version."""
REMOVED = REPLACED | {f"skr-2/Sample__{STORAGE.namespace}_{STORAGE.name}"}
"""Beside them a default CR whose module is being removed: this version deletes it while users' objects block that."""


NOT_RESTORED = {f"skr-2/Kyma__kyma-system_default.yaml: {each}" for each in ("-  generation: 2", "+  generation: 1")}
"""A user has changed its spec."""


async def until_states(stage: Stage, number: int, wanted: dict[str, str]) -> None:
    """Wait until the status of a Kyma has states, the empty name being the Kyma's own."""

    async def is_reached() -> bool:
        seen.clear()
        seen.update(await stage.states(number))
        return seen == wanted

    seen: dict[str, str] = {}
    try:
        await eventually(is_reached, within=SECONDS)
    except AssertionError:
        raise AssertionError(f"the states of Kyma {number} are {seen}, and not {wanted}") from None


async def test_go_version_installs_seven_modules_in_two_clusters(stage: Stage) -> None:
    recorded = (FIRST,)  # the second cluster was recorded when users had changed it
    for number in recorded if stage.go is None else (FIRST, SECOND):
        chosen = modules.CHOSEN[number]
        await until_states(stage, number, dict.fromkeys(("", *chosen), "Ready"))
        assert set(await stage.manifests(number)) == {*chosen, modules.WARDEN.name}


async def test_go_version_waits_for_what_blocks_a_removal(stage: Stage) -> None:
    if stage.go is not None:
        skr = stage.skrs[SECOND]
        blocked = {"metadata": {"finalizers": [modules.FINALIZER]}}
        await skr.merge_patch(samples_of(EVENTING), EVENTING.name, blocked, EVENTING.namespace, field_manager="manager")
        users = {**STORAGE.default_cr(), "metadata": {"name": "users", "namespace": "default"}}
        await skr.create(samples_of(STORAGE), users, "default", field_manager="user")
        await stage.choose(SECOND, {"serverless": {}, "gateways": {}, MONITORING.name: {"managed": False}})

    await until_states(stage, SECOND, SETTLED | BLOCKED)
    await until_states(stage, FIRST, READY)


async def test_what_it_left_is_what_is_recorded(stage: Stage) -> None:
    async def is_still() -> bool:
        found.append(await stage.recording())
        return found[-1] == found[-2]

    found = [await stage.recording()]
    await eventually(is_still, what="the Go version writes nothing any more", every=QUIET_SECONDS)
    if recorder.is_requested():
        recorder.write(found[-1])
    expected = set() if stage.go else NOT_RESTORED
    assert set(recorder.differences(found[-1])) == expected


@dataclass(eq=False)
class GoSteps:
    """What the Go version does once it works again: the program, or the writes that are recorded of it."""

    stage: Stage
    own: dict[str, str] = field(default_factory=dict)
    """What stands in the recording for the uids and addresses of this run."""
    seen: Writes | None = None

    async def begin(self) -> None:
        """Leave out what the program has written so far."""
        await self._learn()
        if self.stage.go is not None:
            self.seen = Writes(dict(zip(self.stage.by_name, self.stage.logs, strict=True)))
            self.seen.changes(self.own)
            self.seen.forget(*OF_THE_WATCHER)

    @asynccontextmanager
    async def run(self, step: str, gone: Collection[str] = ()) -> AsyncGenerator[None, None]:
        """Have it follow what was changed, by the end of the block if it is the program.

        `gone`: the names of clusters and Kymas that are empty then, or deleted.
        """
        await self._learn()
        if self.seen is None:
            recorded = {recorded: text for text, recorded in self.own.items()}
            await writes.send(step, self.stage.by_name, self.stage.secrets, recorded)
        yield
        if self.seen is not None:
            await self._learn()
            changes = self.seen.changes(self.own)
            self.seen.forget(*gone)
            if recorder.is_requested():
                writes.record(step, changes)

    async def _learn(self) -> None:
        identities = await self.stage.identities()
        self.own |= {self.stage.registry: REGISTRY}
        self.own |= {uid: recorder.uid_in(f"{name}.yaml") for name, uid in identities.items()}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def steps(stage: Stage) -> GoSteps:
    """What the Go version does from here on."""
    found = GoSteps(stage)
    await found.begin()
    return found


@dataclass(frozen=True)
class WatchedCluster:
    """A cluster in which a Watcher of this version starts."""

    skr: Client
    event_port: int


async def test_check_finds_that_no_lease_is_held_and_nothing_else(stage: Stage, before: dict[str, str]) -> None:
    result = await run_klm(stage.kubeconfig, "adopt", "--check", "--sample", "2", "-o", "json")
    assert result.code == 1, result.text + result.errors
    found = json.loads(result.text)
    (obstacle,) = found["inTheWay"]
    assert "klm-controller-manager runs without --leader-elect" in obstacle["text"]
    assert [each["name"] for each in found["former"]] == ["klm-controller-manager"]
    assert found["counts"]["manifests"] == 7 + 5
    assert [(each["error"], each["foreign"], each["missing"]) for each in found["clusters"]] == [("", 0, 0)] * 2
    assert await stage.identities() == before


async def test_takeover_replaces_nothing(stage: Stage, before: dict[str, str], tmp_path: Path) -> None:
    await apply_crds(stage.kcp)  # as the chart does
    result = await run_klm(stage.kubeconfig, "adopt", "--yes")
    assert result.code == 0, result.text + result.errors

    async def has_ended() -> bool:
        return await stage.replicas() == 0

    await eventually(has_ended, what="the Go version has ended")
    audit = stage.audit()
    async with stage.ours():
        for number, skr in enumerate(stage.skrs):
            await until_our_watcher(skr)
            folder = tmp_path / str(number)
            folder.mkdir()
            await deliver_signed(WatchedCluster(skr, stage.event_port), folder)
        await until_states(stage, FIRST, READY)
        await until_states(stage, SECOND, SETTLED | BLOCKED)
        assert replaced(before, await stage.identities()) == REMOVED
        await writes_end(stage)
    written = Counter[Write]()
    for log in audit[1:]:
        written.update(each for each in log.writes() if each.resource in OF_MODULES)
    assert {write: count for write, count in written.items() if count > MAX_WRITES} == {}


async def test_way_back_replaces_nothing(stage: Stage, before: dict[str, str], steps: GoSteps) -> None:
    result = await run_klm(stage.kubeconfig, "adopt", "--back", "--yes")
    assert result.code == 0, result.text + result.errors
    await eventually(stage.replicas, what="the Go version runs")
    async with steps.run("return"):
        await until_states(stage, FIRST, READY)
        await until_states(stage, SECOND, SETTLED | BLOCKED)
        await eventually(lambda: has_watchers(stage), within=SECONDS, what="its Watchers are complete again")
        assert replaced(before, await stage.identities()) == REMOVED


async def test_what_was_given_back_differs_in_known_fields_alone(stage: Stage) -> None:
    now = await stage.recording()
    compared = {
        file: text
        for file, text in recorder.written().items()
        if "/CustomResource" not in file
        and not file.startswith("kcp/Watcher")
        and file.removesuffix(".yaml") not in REMOVED
        and "skr-webhook" not in file
    }
    assert unexpected(differing_fields(compared, now)) == []


async def test_go_version_upgrades_what_was_given_back(stage: Stage, steps: GoSteps) -> None:
    await stage.publish(SERVERLESS, modules.NEW, regular=modules.NEW, fast=modules.NEW)
    async with steps.run("upgrade"):
        for number, skr in enumerate(stage.skrs):

            async def is_upgraded(number: int = number, skr: Client = skr) -> bool:
                manifest = (await stage.manifests(number))[SERVERLESS.name]
                pod = (await skr.get(DEPLOYMENTS, SERVERLESS.name, SKR))["spec"]["template"]["spec"]
                has_left = [each["name"] for each in pod["containers"]] == ["manager"] and not pod.get("volumes")
                if manifest.spec.version != modules.NEW or not has_left:
                    return False
                return await is_gone(skr.get(CONFIG_MAPS, f"{SERVERLESS.name}-legacy", SKR))

            await eventually(
                is_upgraded, within=SECONDS, what=f"the module of Kyma {number} is as the new version has it"
            )
        await until_states(stage, FIRST, READY)


async def test_go_version_installs_a_module(stage: Stage, steps: GoSteps) -> None:
    await stage.publish(LATER, modules.OLD, regular=modules.OLD)
    await stage.choose(FIRST, {name: {} for name in (*modules.CHOSEN[FIRST], LATER.name)})
    async with steps.run("installation"):
        await until_states(stage, FIRST, READY | {LATER.name: "Ready"})


async def test_go_version_removes_a_module(stage: Stage, steps: GoSteps) -> None:
    left = [each for each in (*modules.CHOSEN[FIRST], LATER.name) if each != TELEMETRY.name]
    await stage.choose(FIRST, {name: {} for name in left})
    async with steps.run("removal"):
        await until_states(stage, FIRST, dict.fromkeys(("", *left), "Ready"))
        there = [each for each in await stage.identities() if TELEMETRY.name in each and each.startswith("skr-1")]
        assert all(each.startswith(("skr-1/ModuleTemplate__", "skr-1/ModuleReleaseMeta__")) for each in there), there


async def test_go_version_ends_removals_that_nothing_blocks_any_more(stage: Stage, steps: GoSteps) -> None:
    skr = stage.skrs[SECOND]
    free = {"metadata": {"finalizers": None}}
    await skr.merge_patch(samples_of(EVENTING), EVENTING.name, free, EVENTING.namespace, field_manager="manager")
    await skr.delete(samples_of(STORAGE), "users", "default")
    async with steps.run("ended_removals"):
        await until_states(stage, SECOND, SETTLED | {"": "Ready"})
        assert set(await stage.manifests(SECOND)) == {"serverless", "gateways", "warden"}


async def test_unmanaged_module_is_still_there_and_is_managed_again(stage: Stage, steps: GoSteps) -> None:
    skr = stage.skrs[SECOND]
    uid = (await skr.get(DEPLOYMENTS, MONITORING.name, SKR))["metadata"]["uid"]
    await stage.choose(SECOND, {name: {} for name in SETTLED.keys() - {""}})
    async with steps.run("managed_again"):
        await until_states(stage, SECOND, dict.fromkeys(SETTLED, "Ready"))
        assert (await skr.get(DEPLOYMENTS, MONITORING.name, SKR))["metadata"]["uid"] == uid


async def test_go_version_reports_no_error_that_it_did_not_report_before(go: GoLifecycleManager) -> None:
    first, last = ({each.kind for each in go.errors(run)} for run in (0, -1))
    assert len(go.runs) == 2
    assert last - first == set()


async def test_go_version_deletes_a_kyma_and_registers_it_again(stage: Stage, steps: GoSteps) -> None:
    runtime, skr = surroundings.RUNTIMES[SECOND], stage.skrs[SECOND]
    await stage.kcp.delete(KYMAS, runtime, KCP)
    async with steps.run("deletion", gone=(f"skr-{SECOND + 1}", runtime)):
        await eventually(lambda: is_gone(stage.kcp.get(KYMAS, runtime, KCP)), within=SECONDS, what="the Kyma is gone")
        assert not (await skr.list(DEPLOYMENTS, SKR)).items
    chosen = ("serverless", "gateways")
    await surroundings.apply(
        stage.kcp, surroundings.kyma_of(runtime, chosen, surroundings.LABELS[SECOND]), "kyma-environment-broker"
    )
    async with steps.run("registration"):
        await until_states(stage, SECOND, dict.fromkeys(("", *chosen), "Ready"))
        assert {each.status for each in (await stage.kyma(SECOND)).status.conditions} == {"True"}


async def until_our_watcher(skr: Client) -> None:
    """Wait until the Watcher of this version is applied."""

    async def is_applied() -> bool:
        live = await skr.get(DEPLOYMENTS, "skr-webhook", SKR)
        return any(each["manager"] == "lifecycle-manager-skr-webhook" for each in live["metadata"]["managedFields"])

    await eventually(is_applied, what="the Watcher is applied", within=SECONDS)


def replaced(before: dict[str, str], after: dict[str, str]) -> set[str]:
    """Return which objects are gone, or others of the same name."""
    return {name for name, uid in before.items() if after.get(name) != uid}


async def has_watchers(stage: Stage) -> bool:
    """Tell whether what this version removed of the Watchers of the Go version is there again."""
    return {*await stage.identities()} >= REPLACED


async def writes_end(stage: Stage) -> None:
    """Wait until this version writes nothing for some seconds, its Leases and Events apart."""

    async def is_quiet() -> bool:
        audit = stage.audit()
        await asyncio.sleep(QUIET_SECONDS)
        last[:] = [each for log in audit for each in log.writes() if each.resource not in {"leases", "events"}]
        return not last

    last: list[Write] = []
    try:
        await eventually(is_quiet)
    except AssertionError:
        raise AssertionError(f"it still writes: {Counter(last).most_common(10)}") from None
