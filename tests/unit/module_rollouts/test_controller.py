"""Rollouts in a simulated control plane: the controller releases versions, and that of Kymas installs only these."""

import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client import generate_latest

from kube_runtime import Conflict
from lifecycle_manager import mandatory_modules, module_rollouts
from lifecycle_manager.contract.resources import (
    KYMAS,
    MANIFESTS,
    MODULE_ROLLOUTS,
    MODULE_TEMPLATES,
    RAW_MANIFESTS,
    ROLLOUT_STRATEGIES,
)
from lifecycle_manager.mandatory_modules import MandatorySettings
from lifecycle_manager.module_rollouts.snapshot import ROLLOUTS_BY_CHANNEL, ReleaseChannel
from lifecycle_manager.options.kymas import RolloutSettings
from lifecycle_manager_api import ModuleRollout, names
from tests import builders
from tests.unit.module_rollouts.fleet import strategy
from tests.world import KCP, SKR, World, key_of, open_world

MODULE = "cloud-resources"
KEY = ReleaseChannel(MODULE, "regular")
TURNS = 12
"""More than a rollout of two waves takes."""
BRAKE = RolloutSettings(max_delay=timedelta(0), min_window=timedelta(0), max_changed="2")
CAREFUL = strategy({"name": "canary", "soak": "0s", "maxFailures": "0"}, maxConcurrent="1", soak="0s")


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as found:
        module_rollouts.setup(found.manager, found.offers, found.settings.rollout)
        await found.kcp.create(ROLLOUT_STRATEGIES, builders.as_written(CAREFUL), KCP, field_manager="operator")
        for version in ("0.1.0", "0.2.0"):
            await found.offer(builders.template(MODULE, version, installs=True))
        await offer(found, "0.1.0")
        for name, wave in (("canary", "canary"), ("one", "other"), ("two", "other")):
            await found.register(name, MODULE, wave=wave)
            await found.introduced(name)
        await finished(found)
        yield found


async def fleet_of(world: World, *kymas: str, modules: tuple[str, ...] = (MODULE,)) -> None:
    for name in kymas:
        await world.register(name, *modules)
        await world.introduced(name)


@asynccontextmanager
async def braked_world(*versions: str, kymas: tuple[str, ...] = ("one", "two", "three")) -> AsyncIterator[World]:
    """Open a world with these versions, of which clusters have the first, and a brake on changes of more than two."""
    async with open_world(rollout=BRAKE) as opened:
        module_rollouts.setup(opened.manager, opened.offers, BRAKE)
        for version in versions:
            await opened.offer(builders.template(MODULE, version, installs=True))
        await opened.offer(builders.release(MODULE, regular=versions[0]))
        await fleet_of(opened, *kymas)
        await report(opened)
        yield opened


async def offer(world: World, version: str, **annotations: str) -> None:
    marks = {names.ROLLOUT_STRATEGY: "careful", **annotations}
    await world.offer(builders.release(MODULE, regular=version, metadata={"annotations": marks}))


async def turn(world: World) -> None:
    """Reconcile the channel, then all Kymas, and report the modules as Ready."""
    await world.turn("module-rollout", KEY)
    for kyma in (await world.kcp.list(KYMAS, KCP)).items:
        await world.reconcile(kyma.metadata.name)
    await report(world)


async def report(world: World) -> None:
    for each in (await world.kcp.list(MANIFESTS, KCP)).items:
        status = {"state": "Ready", "observedGeneration": each.metadata.generation}
        await world.kcp.merge_patch(MANIFESTS, each.metadata.name, {"status": status}, KCP, subresource="status")


async def finished(world: World, minutes: float = 0) -> None:
    """Turn until the newest rollout is completed, and once more, by which nothing changes."""
    for _ in range(TURNS):
        await turn(world)
        world.clock.advance(60 * minutes)
        if (await world.kcp.list(MODULE_ROLLOUTS, KCP)).items and (await latest(world)).status.phase == "Completed":
            break
    before = await versions(world)
    await turn(world)
    assert ((await latest(world)).status.phase, await versions(world)) == ("Completed", before)


async def latest(world: World) -> ModuleRollout:
    found = (await world.kcp.list(MODULE_ROLLOUTS, KCP)).items
    return max(found, key=lambda each: each.spec.revision)


async def versions(world: World) -> dict[str, str]:
    return {name.removesuffix(f"-{MODULE}"): version for name, version in (await world.manifests()).items()}


async def test_version_reaches_wave_after_wave(world: World) -> None:
    await offer(world, "0.2.0")
    for name in ("canary", "one", "two"):
        await world.reconcile(name)
    assert set((await versions(world)).values()) == {"0.1.0"}, "no rollout, no new version"

    seen: list[dict[str, str]] = []
    for _ in range(TURNS):
        await turn(world)
        now = await versions(world)
        if not seen or seen[-1] != now:
            seen.append(now)
    assert seen == [
        {"canary": "0.1.0", "one": "0.1.0", "two": "0.1.0"},
        {"canary": "0.2.0", "one": "0.1.0", "two": "0.1.0"},
        {"canary": "0.2.0", "one": "0.2.0", "two": "0.1.0"},
        {"canary": "0.2.0", "one": "0.2.0", "two": "0.2.0"},
    ]
    rollout = await latest(world)
    assert (rollout.metadata.name, rollout.status.phase) == ("cloud-resources-regular-2", "Completed")
    assert ("AllWavesCompleted", "all waves are completed") in world.events


async def test_release_survives_the_status_of_the_installation(world: World) -> None:
    await offer(world, "0.2.0")
    for _ in range(3):
        await world.turn("module-rollout", KEY)
    manifest = await world.kcp.get(MANIFESTS, f"canary-{MODULE}", KCP)
    assert manifest.status.release is not None
    assert (manifest.status.release.version, manifest.status.release.rollout) == ("0.2.0", "cloud-resources-regular-2")

    found = await world.kcp.get(RAW_MANIFESTS, manifest.metadata.name, KCP)
    owners = {each["manager"]: each["fieldsV1"] for each in found["metadata"]["managedFields"]}
    assert "f:release" in owners["lifecycle-manager-rollouts"]["f:status"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"version": "9.9.9"},
        {"version": "9.9.9", "formerVersion": ""},
        {"undoes": "nothing"},
        {"undoes": "cloud-resources-regular-1", "version": "0.0.1", "formerVersion": "0.1.0"},
        {"revision": 2**40},
    ],
)
async def test_undo_of_what_is_not_in_force_changes_nothing_and_goes(world: World, wrong: dict[str, Any]) -> None:
    await offer(world, "0.2.0", **{names.ALLOW_DOWNGRADE: "true"})
    await finished(world)
    undone = await latest(world)
    back = {"version": "0.1.0", "formerVersion": "0.2.0", "revision": 3, "undoes": undone.metadata.name}
    spec = msgspec.to_builtins(undone.spec) | back | {"atOnce": True} | wrong
    named = {"name": "cloud-resources-regular-3", "namespace": KCP}
    await world.kcp.create(MODULE_ROLLOUTS, {"metadata": named, "spec": spec}, KCP, field_manager="klm")
    for _ in range(TURNS):
        await turn(world)

    assert set((await versions(world)).values()) == {"0.2.0"}
    assert (await latest(world)).metadata.name == undone.metadata.name


async def test_metrics_show_the_phase_and_the_clusters(world: World) -> None:
    await offer(world, "0.2.0")
    for _ in range(3):
        await world.turn("module-rollout", KEY)
    labels = {"module_name": MODULE, "channel": "regular", "version": "0.2.0"}
    registry = world.manager.registry

    def sample(name: str, **more: str) -> float | None:
        return registry.get_sample_value(f"lifecycle_mgr_rollout_{name}", {**labels, **more})

    assert sample("phase", phase="Progressing") == 1
    assert (sample("clusters", standing="under_way"), sample("clusters", standing="waiting")) == (1, 2)

    await offer(world, "0.1.0")  # which the first rollout was for, too
    for _ in range(3):
        await world.turn("module-rollout", KEY)
    lines = [each.rpartition(" ")[0] for each in generate_latest(registry).decode().splitlines()]
    assert [each for each, count in Counter(lines).items() if count > 1 and each.startswith("lifecycle_mgr_ro")] == []


async def test_replica_with_an_old_view_releases_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await offer(world, "0.2.0")
    await world.turn("module-rollout", KEY)
    informer = world.manager.informer(MODULE_ROLLOUTS)
    stale = informer.by_index(ROLLOUTS_BY_CHANNEL, str(KEY))
    await world.kcp.merge_patch(MODULE_ROLLOUTS, (await latest(world)).metadata.name, {"spec": {"paused": True}}, KCP)
    await world.sync_caches()

    monkeypatch.setattr(informer, "by_index", lambda *_: stale)
    with pytest.raises(Conflict):
        await world.turn("module-rollout", KEY)

    manifests = (await world.kcp.list(MANIFESTS, KCP)).items
    assert not [each for each in manifests if each.status.release and each.status.release.version == "0.2.0"]


async def skip_windows(world: World, name: str) -> None:
    """Write into the Kyma of the user's cluster; that in KCP stays as it is."""
    patch = {"spec": {"skipMaintenanceWindows": True}}
    await (await world.skr(name)).merge_patch(KYMAS, names.DEFAULT_KYMA_NAME, patch, SKR)
    await world.reconcile(name, times=2)


async def test_users_who_skip_maintenance_windows_get_the_version_outside_of_them(tmp_path: Path) -> None:
    policy = tmp_path / "policy.json"
    at_night = {"days": ["Mon", "Tue"], "begin": "22:00:00+00:00", "end": "23:00:00+00:00"}
    policy.write_text(json.dumps({"default": at_night, "rules": []}))
    settings = RolloutSettings(max_delay=timedelta(0), min_window=timedelta(0), policy_file=policy)
    async with open_world(rollout=settings) as found:
        module_rollouts.setup(found.manager, found.offers, settings)
        at_once = strategy({"name": "canary"}, maxConcurrent="100%", soak="0s")
        await found.kcp.create(ROLLOUT_STRATEGIES, builders.as_written(at_once), KCP, field_manager="operator")
        for version in ("0.1.0", "0.2.0"):
            await found.offer(builders.template(MODULE, version, installs=True, requires_downtime=True))
        await offer(found, "0.1.0")
        await fleet_of(found, "hasty", "patient")
        await finished(found)

        await offer(found, "0.2.0")
        for text in (policy.read_text(), "{}"):  # which can't be read
            policy.write_text(text)
            for _ in range(4):
                found.clock.advance(3600)
                await turn(found)
            status = (await latest(found)).status
            assert (status.waves[-1].held, status.phase) == (2, "Progressing")

        await skip_windows(found, "hasty")
        for _ in range(4):
            await turn(found)
        assert await versions(found) == {"hasty": "0.2.0", "patient": "0.1.0"}
        *_, wave = (await latest(found)).status.waves
        assert (wave.held, wave.failed) == (1, 0)

        await skip_windows(found, "patient")
        for _ in range(4):
            await turn(found)
        assert (await versions(found))["patient"] == "0.2.0"


async def test_large_change_without_a_strategy_goes_in_waves() -> None:
    async with braked_world("0.1.0", "0.2.0") as found:
        await found.offer(builders.release(MODULE, regular="0.2.0"))
        for name in ("one", "two", "three"):
            await found.reconcile(name)
        assert set((await versions(found)).values()) == {"0.1.0"}, "held before a rollout has begun"
        await turn(found)
        await turn(found)
        assert sorted((await versions(found)).values()) == ["0.1.0", "0.1.0", "0.2.0"]
        begun = await latest(found)
        assert [each.name for each in begun.spec.strategy.waves] == ["trial"]
        assert begun.spec.former_version == "0.1.0"
        await finished(found, minutes=10)
        assert set((await versions(found)).values()) == {"0.2.0"}


async def test_selector_that_removes_a_module_from_very_many_clusters_waits() -> None:
    kymas = ("one", "two", "three")

    async def select(team: str, module: str = MODULE) -> None:
        spec = {"kymaSelector": {"matchExpressions": [{"key": "team", "operator": "In", "values": team.split()}]}}
        await found.offer(builders.release(module, regular="0.1.0", spec=spec))
        for name in kymas:
            await found.reconcile(name, times=2)

    async def kept(module: str = MODULE) -> list[str]:
        manifests = [each.metadata for each in (await found.kcp.list(MANIFESTS, KCP)).items]
        named = (each.labels for each in manifests if not each.being_deleted)
        return [each[names.KYMA_NAME] for each in named if each[names.MODULE_NAME] == module]

    async with open_world(rollout=RolloutSettings(max_changed="2")) as found:
        for module in (MODULE, "keda"):
            await found.offer(builders.template(module, "0.1.0", installs=True))
            await found.offer(builders.release(module, regular="0.1.0"))
        for name in kymas:
            await found.register(name, MODULE, "keda", team=name)
            await found.introduced(name)
        await select("other")
        assert sorted(await kept()) == sorted(kymas)
        status = next(each for each in (await found.in_kcp("one")).status.modules if each.name == MODULE)
        assert status.state == "Warning"
        assert "klm continue one" in status.message
        await select("two three", "keda")
        assert sorted(await kept("keda")) == ["three", "two"], "only the removal of another module is held"
        assert "DeletionHeld" in {each.reason for each in (await found.in_kcp("one")).status.conditions}

        word = {"metadata": {"annotations": {names.CONTINUE_DELETION: "2126-01-01T00:00:00+00:00"}}}
        await found.kcp.merge_patch(KYMAS, "one", word, KCP)
        for name in kymas:
            await found.reconcile(name, times=2)
            found.clock.advance(1)
        assert sorted(await kept()) == ["three", "two"], "they are held, although two are not too many"


CHANGED_DATA = {
    "apiVersion": "keda.example.com/v1",
    "kind": "Keda",
    "metadata": {"name": "default"},
    "spec": {"is": "changed"},
}


async def resources(world: World) -> int:
    """Return in how many clusters the changed default Module CR is."""
    found = (await world.kcp.list(MANIFESTS, KCP)).items
    return sum(b"changed" in bytes(each.spec.resource) for each in found)


async def test_template_changed_in_place_reaches_very_many_clusters_in_waves() -> None:
    async with braked_world("0.1.0") as found:
        await found.offer(builders.template(MODULE, "0.1.0", installs=True, data=CHANGED_DATA))
        for name in ("one", "two", "three"):
            await found.reconcile(name)
        assert await resources(found) == 0, "held before a rollout has begun"
        seen: list[int] = []
        for _ in range(4):
            await turn(found)
            seen.append(await resources(found))
        assert seen == [0, 1, 2, 3]
        assert (await latest(found)).status.phase != "Completed", "each soaks anew, although it was Ready before"
        begun = (await latest(found)).spec
        assert (begun.version, begun.former_version, begun.revision) == ("0.1.0", "0.1.0", 1)
        await finished(found, minutes=10)

        await found.offer(builders.template(MODULE, "0.1.0", installs=True))
        for name in ("one", "two", "three"):
            await found.reconcile(name)
        assert await resources(found) == 3, "the way back is as large a change"
        await turn(found)
        await turn(found)
        assert (await resources(found), (await latest(found)).spec.revision) == (2, 2)


async def test_template_changed_in_place_under_way_is_another_rollout() -> None:
    async with braked_world("0.1.0", "0.2.0") as found:
        await found.offer(builders.release(MODULE, regular="0.2.0"))
        await turn(found)
        await turn(found)
        assert sorted((await versions(found)).values()) == ["0.1.0", "0.1.0", "0.2.0"]

        await found.offer(builders.template(MODULE, "0.2.0", installs=True, data=CHANGED_DATA))
        for name in ("one", "two", "three"):
            await found.reconcile(name)
        assert await resources(found) == 0, "the cluster with the version keeps what it has"
        await finished(found, minutes=10)
        assert (await resources(found), set((await versions(found)).values())) == (3, {"0.2.0"})
        assert ((await latest(found)).spec.revision, (await latest(found)).spec.former_version) == (2, "0.1.0")


async def test_template_changed_in_few_clusters_takes_effect_at_once() -> None:
    async with braked_world("0.1.0", kymas=("one", "two")) as found:
        await found.offer(builders.template(MODULE, "0.1.0", installs=True, data=CHANGED_DATA))
        for name in ("one", "two"):
            await found.reconcile(name)
        assert await resources(found) == 2


async def test_user_may_change_a_module_whose_template_is_held() -> None:
    async with braked_world("0.1.0") as found:
        await found.offer(builders.template(MODULE, "0.1.0", installs=True, data=CHANGED_DATA))
        await found.choose(MODULE, name="one", customResourcePolicy="Ignore")
        await found.reconcile("one", times=2)
        manifest = await found.kcp.get(MANIFESTS, f"one-{MODULE}", KCP)
        assert (manifest.spec.custom_resource_policy, bytes(manifest.spec.resource)) == ("Ignore", b"null")


@pytest.mark.parametrize("is_released", [False, True])
async def test_mandatory_module_gets_another_version_in_waves(*, is_released: bool) -> None:
    kymas: tuple[str, ...] = ("one", "two", "three")
    mandatory = not is_released

    async def install(*names_of: str) -> None:
        for name in names_of:
            await found.turn("mandatory-modules", key_of(name))

    async def release(version: str) -> None:
        await found.offer(builders.template("warden", version, installs=True, mandatory=mandatory))
        if is_released:
            await found.offer(builders.release("warden", mandatory=version))

    async def turns(count: int) -> list[str]:
        for _ in range(count):
            await found.turn("module-rollout", ReleaseChannel("warden", "mandatory"))
            await install(*kymas)
            await report(found)
            found.clock.advance(600)
        return sorted((await found.manifests()).values())

    async with open_world(rollout=BRAKE) as found:
        module_rollouts.setup(found.manager, found.offers, BRAKE)
        mandatory_modules.setup(found.manager, found.offers, MandatorySettings(), BRAKE)
        await release("1.0.0")
        await fleet_of(found, *kymas, modules=())
        await install(*kymas)
        assert await turns(1) == ["1.0.0"] * 3

        await release("2.0.0")
        await install(*kymas)
        assert await turns(1) == ["1.0.0"] * 3, "held before a rollout has begun"
        assert await turns(1) == ["1.0.0", "1.0.0", "2.0.0"]
        begun = await latest(found)
        assert (begun.metadata.name, begun.spec.former_version) == ("warden-mandatory-1", "1.0.0")
        await fleet_of(found, "late", modules=())
        await install("late")
        assert (await found.manifests())["late-warden"] == "1.0.0", "its wave is not completed"
        kymas = (*kymas, "late")
        assert await turns(12) == ["2.0.0"] * 4
        assert (await latest(found)).status.phase == "Completed"


async def test_halted_rollout_of_a_mandatory_module_outlives_its_template() -> None:
    """`kubectl replace --force`, and tools that delete and create again, must not release what was halted."""
    key = ReleaseChannel("warden", "mandatory")
    async with open_world(rollout=BRAKE) as found:
        module_rollouts.setup(found.manager, found.offers, BRAKE)
        mandatory_modules.setup(found.manager, found.offers, MandatorySettings(), BRAKE)
        await found.offer(builders.template("warden", "1.0.0", installs=True))
        await found.offer(builders.release("warden", mandatory="1.0.0"))
        kymas = ("one", "two", "three")
        await fleet_of(found, *kymas, modules=())
        for name in kymas:
            await found.turn("mandatory-modules", key_of(name))
        await found.offer(builders.template("warden", "2.0.0", installs=True))
        await found.offer(builders.release("warden", mandatory="2.0.0"))
        await found.turn("module-rollout", key)
        await found.kcp.merge_patch(MODULE_ROLLOUTS, "warden-mandatory-1", {"spec": {"halted": True}}, KCP)
        await found.turn("module-rollout", key)
        assert (await latest(found)).status.phase == "Halted"
        await found.kcp.delete(MODULE_TEMPLATES, "warden-2.0.0", KCP)
        await found.turn("module-rollout", key)
        assert (await latest(found)).status.phase == "Halted"
