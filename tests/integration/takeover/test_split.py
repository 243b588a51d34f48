"""Both versions work in one control plane, each for its own Kymas."""

import asyncio
from typing import Any

from kube_runtime import Manager, Resource
from kyma_takeover import marks
from kyma_takeover.lease import LEASE, LEASES
from lifecycle_manager.contract.resources import KYMAS, MANIFESTS, SECRETS
from lifecycle_manager_api import State, names
from tests.integration.takeover.conftest import KCP, Takeover
from tests.integration.takeover.test_lease import renew
from tests.integration.takeover.test_modules import is_settled, managers_of, module_objects
from tests.klm import run_klm
from tests.takeover_from_go.modules import OLD
from tests.takeover_from_go.starts import KYMA, MODULE
from tests.waiting import eventually

LABEL = "example.com/lifecycle-manager"
SPLIT = ("--kyma-selector", f"{LABEL}=python")
CONTROLLERS = ("kyma", "catalog", "watcher")


async def versions(world: Takeover) -> dict[str, Any]:
    """Return the resource versions of everything of the Kyma, and of what belongs to none."""
    found = {key: live["metadata"]["resourceVersion"] for key, live in (await module_objects(world)).items()}
    resources: tuple[Resource[Any], ...] = (KYMAS, MANIFESTS, SECRETS)
    for resource in resources:
        for each in (await world.kcp.list(resource, KCP)).items:
            if each.metadata.name != "klm-watcher":  # the adopted CA
                found[f"{resource.kind} {each.metadata.name}"] = each.metadata.resource_version
    (watcher,) = (await world.kcp.list(await world.kcp.mapper.resource(KYMAS.api_version, "Watcher"), KCP)).items
    return {**found, "Watcher": watcher["metadata"]["resourceVersion"]}


async def mark(world: Takeover, resource: Any, name: str, metadata: dict[str, Any]) -> None:
    await world.kcp.merge_patch(resource, name, {"metadata": metadata}, KCP, field_manager="administrator")


async def nothing_waits(manager: Manager) -> None:
    await eventually(lambda: manager.working and manager.sharding.has_begun, what="the work has begun")
    async with asyncio.timeout(60):
        for each in CONTROLLERS:
            await manager.controllers[each].queue.drained()


async def test_other_kymas_are_left_alone_while_the_former_version_works(world: Takeover) -> None:
    await renew(world)
    before = await versions(world)
    async with world.running(kyma_selector=(f"{LABEL}=python",)) as manager:
        await nothing_waits(manager)
        await mark(world, KYMAS, KYMA, {"labels": {LABEL: "python"}})  # the former version is not kept from it

        def is_noticed() -> bool:
            kyma = manager.informer(KYMAS).list()[0]
            return kyma.metadata.labels.get(LABEL) == "python"

        await eventually(is_noticed, what="the label is read")
        assert not manager.sharding.owns(KYMA)
    after = await versions(world)
    assert {key for key in after if after[key] != before.get(key)} == {f"Kyma {KYMA}"}


async def test_kyma_that_the_former_version_is_kept_from_is_taken_over_at_once(world: Takeover) -> None:
    async with world.running(kyma_selector=(f"{LABEL}=python",)) as manager:
        await nothing_waits(manager)
        await renew(world)
        before = await versions(world)
        result = await run_klm(world.clusters.kcp.admin_kubeconfig, "adopt", *SPLIT, "--yes", KYMA)
        assert result.code == 0, result.errors
        await eventually(lambda: is_settled(world, OLD), what="the module is ready")

        manifest = await world.manifest()
        assert manifest.metadata.is_kept_from_former_version
        assert (await world.kyma()).status.state in {State.READY, State.PROCESSING}
        secrets = [each.metadata.name for each in (await world.kcp.list(SECRETS, KCP)).items]
        assert f"{KYMA}-webhook-tls" in secrets  # with two Secrets the former version can't access the cluster
        assert (await versions(world))["Watcher"] == before["Watcher"]
        lease = await world.kcp.get(LEASES, LEASE, KCP)
        assert lease["spec"]["holderIdentity"]


async def test_new_manifests_are_kept_from_the_former_version_from_the_start(world: Takeover) -> None:
    async with world.running(kyma_selector=(f"{LABEL}=python",)):
        await world.choose("fast")
        await eventually(world.has_no_manifest, what="the Manifest is gone")
        await world.choose("fast", MODULE.name)
        (manifest,) = await eventually(world.manifests, what="there is a Manifest")
        assert manifest.metadata.is_kept_from_former_version
        creation = await world.kcp.get(
            await world.kcp.mapper.resource(MANIFESTS.api_version, MANIFESTS.kind), manifest.metadata.name, KCP
        )
        fields = creation["metadata"]["managedFields"]
        (applied,) = (each for each in fields if each["operation"] == "Apply" and not each.get("subresource"))
        assert f"f:{names.SKIP_RECONCILIATION}" in applied["fieldsV1"]["f:metadata"]["f:labels"]


async def test_pause_by_klm_holds_in_a_split_fleet_too(world: Takeover) -> None:
    async with world.running(kyma_selector=(f"{LABEL}=python",)) as manager:
        await mark(world, KYMAS, KYMA, {"annotations": {names.PAUSED_AT: "2026-11-22T12:00:00+00:00"}})
        await nothing_waits(manager)
        await world.choose("regular")
        await mark(world, KYMAS, KYMA, {"annotations": {names.RECONCILE_AT: "2026-11-22T12:00:01+00:00"}})

        def is_noticed() -> bool:
            return names.RECONCILE_AT in manager.informer(KYMAS).list()[0].metadata.annotations

        await eventually(is_noticed, what="the annotation is read")
        manifest = await world.manifest()
        assert not manifest.metadata.being_deleted
        await mark(world, KYMAS, KYMA, {"annotations": {names.PAUSED_AT: None}})
        await eventually(world.has_no_manifest, what="the module is removed")


async def test_kyma_that_is_given_back_is_left_alone(world: Takeover) -> None:
    async with world.running(kyma_selector=(f"{LABEL}=python",)) as manager:
        await world.choose("fast", MODULE.name)
        await eventually(lambda: world.live("apps/v1", "Deployment", MODULE.name), what="the module is installed")
        result = await run_klm(
            world.clusters.kcp.admin_kubeconfig, "adopt", *SPLIT, "--back", "--yes", "-l", f"{LABEL}=python"
        )

        assert result.code == 0, result.text + result.errors
        kyma, manifest = await world.kyma(), await world.manifest()
        for metadata in (kyma.metadata, manifest.metadata):
            assert {LABEL, names.SKIP_RECONCILIATION}.isdisjoint(metadata.labels)
            assert names.SKIPPED_BY not in metadata.annotations
        await eventually(lambda: not manager.sharding.owns(KYMA), what="the Kyma is not managed")
        before = await versions(world)
    live = await world.stored("apps/v1", "Deployment", MODULE.name)
    assert managers_of(live) == {marks.APPLIER}
    async with world.running(kyma_selector=(f"{LABEL}=python",)) as manager:
        await nothing_waits(manager)
        assert await versions(world) == before
