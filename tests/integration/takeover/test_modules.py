"""A module of the former version is taken over, upgraded and removed, and nothing of it is restarted on the way."""

from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio

from kube_runtime import JsonObject, Manager
from lifecycle_manager.contract.resources import KYMAS, MODULE_RELEASE_METAS
from lifecycle_manager_api import State, names
from tests.integration.takeover.conftest import KCP, SKR, Takeover
from tests.takeover_from_go.modules import NEW, OLD
from tests.takeover_from_go.played import run_deployments
from tests.takeover_from_go.starts import KYMA, MANIFEST, MODULE
from tests.waiting import eventually

OBJECTS = tuple((each["apiVersion"], each["kind"], each["metadata"]["name"]) for each in MODULE.objects(OLD))
SAMPLE = (f"{MODULE.group}/v1alpha1", "Sample", MODULE.name)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def before(world: Takeover) -> dict[str, JsonObject]:
    """The objects of the module as the former version left them."""
    return await module_objects(world)


@pytest_asyncio.fixture(loop_scope="session")
async def running(world: Takeover, before: dict[str, JsonObject]) -> AsyncIterator[Takeover]:
    """Ours runs, for each test as a process that reads everything anew."""
    assert before
    async with world.running():
        yield world


async def module_objects(world: Takeover) -> dict[str, JsonObject]:
    found = {f"{kind} {name}": await world.live(version, kind, name) for version, kind, name in (*OBJECTS, SAMPLE)}
    return {key: live for key, live in found.items() if live is not None}


async def is_settled(world: Takeover, version: str) -> bool:
    await run_deployments(world.skr)
    manifest, kyma = await world.manifest(), await world.kyma()
    metadata, status = manifest.metadata, manifest.status
    if manifest.spec.version != version or status.observed_generation != metadata.generation:
        return False
    modules = {each.name: (each.version, each.state) for each in kyma.status.modules}
    return status.state is State.READY and modules == {MODULE.name: (version, State.READY)}


def contents(found: dict[str, JsonObject]) -> dict[str, tuple[Any, Any]]:
    """Return what must stay: the identity, and the content without metadata."""
    volatile = {"metadata", "status"}
    return {
        key: (live["metadata"]["uid"], {name: value for name, value in live.items() if name not in volatile})
        for key, live in found.items()
    }


def generations(found: dict[str, JsonObject]) -> dict[str, int | None]:
    """Return the generations. That of a Deployment counts its annotations too, so it changes with the owner."""
    return {key: live["metadata"].get("generation") for key, live in found.items() if "Deployment" not in key}


async def resource_versions(world: Takeover) -> dict[str, str]:
    manifest = await world.manifest()
    found = {key: live["metadata"]["resourceVersion"] for key, live in (await module_objects(world)).items()}
    return found | {"Manifest": manifest.metadata.resource_version}


def reconciles(manager: Manager, controller: str) -> float:
    """Return how many reconciles of a controller came to a good end."""
    return sum(
        sample.value
        for family in manager.metrics.collect()
        for sample in family.samples
        if sample.name == "controller_runtime_reconcile_total"
        and (sample.labels["controller"], sample.labels["result"]) != (controller, "error")
        and sample.labels["controller"] == controller
    )


def managers_of(live: JsonObject) -> set[str]:
    return {each["manager"] for each in live["metadata"]["managedFields"] if each["operation"] == "Apply"}


async def test_objects_stay_as_they_are_and_change_their_owner(
    running: Takeover, before: dict[str, JsonObject]
) -> None:
    await eventually(lambda: is_settled(running, OLD), what="the module is ready")

    after = await module_objects(running)
    assert contents(after) == contents(before)
    assert generations(after) == generations(before)
    manifest = await running.manifest()
    assert manifest.metadata.name == MANIFEST
    for version, kind, name in OBJECTS:
        live = await running.stored(version, kind, name)
        assert managers_of(live) == {names.LIFECYCLE_MANAGER}
        labels = live["metadata"]["labels"]
        assert labels[names.MANAGED_BY] == names.LIFECYCLE_MANAGER
        assert (labels[names.PART_OF], labels[names.COMPONENT]) == ("Kyma", MANIFEST)
        assert "DO NOT EDIT" in live["metadata"]["annotations"][names.DISCLAIMER]
        assert live["metadata"]["annotations"][names.OWNED_BY] == f"{KCP}/{MANIFEST}"
        assert names.DEPRECATED_OWNED_BY not in live["metadata"]["annotations"]
    assert after[f"Sample {MODULE.name}"] == before[f"Sample {MODULE.name}"]


async def test_what_the_control_plane_dropped_leaves_the_catalog(running: Takeover) -> None:
    async def shown() -> bool:
        found = (await running.skr.list(MODULE_RELEASE_METAS, SKR)).items
        return {each.metadata.name for each in found} == {MODULE.name}

    await eventually(shown, what="the catalog is that of the control plane")


async def test_another_process_writes_nothing(world: Takeover, before: dict[str, JsonObject]) -> None:
    assert before
    versions = await resource_versions(world)
    async with world.running() as manager:

        def all_have_reconciled() -> bool:
            names_of = ("manifest", "kyma", "catalog", "watcher")
            return all(reconciles(manager, name) for name in names_of)

        await eventually(all_have_reconciled, what="every controller has reconciled")
        assert await resource_versions(world) == versions


async def test_next_version_removes_what_it_no_longer_has(running: Takeover, before: dict[str, JsonObject]) -> None:
    await running.choose("fast", MODULE.name)
    await eventually(lambda: is_settled(running, NEW), what="the next version runs")

    live = await running.stored("apps/v1", "Deployment", MODULE.name)
    assert live["metadata"]["uid"] == before[f"Deployment {MODULE.name}"]["metadata"]["uid"]
    pod = live["spec"]["template"]["spec"]
    assert [each["name"] for each in pod["containers"]] == ["manager"]
    assert [each["name"] for each in pod["containers"][0]["env"]] == ["LOG_LEVEL", "SKR_IMG_PULL_SECRET"]
    assert not pod.get("volumes")
    assert "volumeMounts" not in pod["containers"][0]
    config = await running.stored("v1", "ConfigMap", MODULE.name)
    assert config["data"] == {"version": NEW}
    assert await running.live("v1", "ConfigMap", f"{MODULE.name}-legacy") is None


async def test_disabled_module_is_removed_with_its_manifest(running: Takeover) -> None:
    await running.choose("fast")
    await eventually(running.has_no_manifest, what="the Manifest is gone")
    assert await module_objects(running) == {}


async def test_deleted_kyma_goes_with_all_of_it(running: Takeover) -> None:
    await running.kcp.delete(KYMAS, KYMA, KCP)
    await running.until_nothing_is_left()
