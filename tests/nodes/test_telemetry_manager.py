"""telemetry-manager as upstream's module team ships it, on a real node, with a Module Manager of our SDK beside it.

TELEMETRY_MANAGER names the folder of its source, kyma-project/telemetry-manager; in `bin` there is what it releases:

    GOFIPS140=v1.0.0 CGO_ENABLED=0 go build -o bin/manager .
    helm template telemetry helm --namespace kyma-system --set nameOverride=telemetry,default.enabled=true \
      --set experimental.enabled=false,manager.container.env.operateInFipsMode=true > bin/telemetry-manager.yaml

Its operator has webhooks with certificates of its own, converts its CRDs, and keeps its Module CR while a pipeline
exists. The images of what it runs for pipelines can't be pulled here: with a pipeline, telemetry is a Warning. Nor does
the operator delete its gateway in time, as each of its probes waits 10 s for what does not run.
"""

from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kyma_demo import names as demo_names
from lifecycle_manager.contract.owned_fields import MODULE_CR_STATUS_MANAGER
from lifecycle_manager.process.crd_installation import apply_objects
from lifecycle_manager_api import State, names
from tests.integration.lifecycle_manager import telemetry_manager
from tests.integration.lifecycle_manager.catalog_entries import put_in_catalog, release, template
from tests.kinds import CONFIG_MAPS, NETWORK_POLICIES, TELEMETRIES
from tests.modules import ANY_MODULE
from tests.nodes import telemetry
from tests.nodes.clusters import NodeClusters, pods_of
from tests.nodes.go_operators import GoOperator, as_text, containers_of, names_of, source_in
from tests.nodes.module_managers import allowed, running_manager
from tests.nodes.registry import PrivateRegistry, private_registry
from tests.waiting import consistently, eventually

MODULE, OLD, NEW, WITH_MANAGER = "telemetry", "1.69.0", "1.69.1", "1.69.2"
DEMO = {"name": demo_names.MODULE, "managed": True}
SECONDS = 120.0
SKR = names.SKR_NAMESPACE
TO_API_SERVER = {
    "spec": {
        "podSelector": {"matchLabels": {"kyma-project.io/module": "telemetry"}},
        "policyTypes": ["Egress"],
        "egress": [{"ports": [{"port": 6443, "protocol": "TCP"}]}],  # the module's own allows port 443, as in Gardener
    }
}


@pytest.fixture
def upstream() -> GoOperator:
    return GoOperator(
        source=source_in("TELEMETRY_MANAGER"),
        module=MODULE,
        name="telemetry-manager",
        default="telemetry-default-cr.yaml",
        module_crs=TELEMETRIES,
    )


async def test_upstreams_module_is_used_updated_and_leaves_nothing(
    world: NodeClusters, upstream: GoOperator, tmp_path: Path
) -> None:
    skr, before = world.skr, await _prepared(world, upstream, tmp_path)
    async with private_registry(world, tmp_path) as registry:
        await _offer(world, registry, upstream, OLD)
        await world.walkthrough.set_modules([DEMO, {"name": MODULE}])
        await eventually(lambda: upstream.runs(world), what="the Pod of telemetry-manager", within=SECONDS)
        await eventually(lambda: _shows(world, upstream, State.READY), what="Ready in the Kyma", within=SECONDS)
        assert await upstream.synced(world) == names_of(upstream.objects())

        refused = await eventually(lambda: telemetry.refusal(skr), what="the webhook's answer", within=SECONDS)
        assert "no statement" in refused
        created = await telemetry.create_samples(skr, upstream.source)
        await eventually(lambda: telemetry.configured(skr, created), what="answers to pipelines", within=SECONDS)
        await eventually(lambda: _shows(world, upstream, State.WARNING), what="Warning in the Kyma", within=SECONDS)
        old = await skr.get(telemetry.OLD_LOG_PIPELINES, "sample-otel")
        assert old["apiVersion"].endswith("v1alpha1")  # converted by the operator

        await _stays_quiet(world)
        await _offer(world, registry, upstream, NEW)
        await eventually(lambda: _runs(world, upstream, NEW), what="the Pod of the new version", within=SECONDS)
        await _stays_quiet(world)

        await world.walkthrough.set_modules([DEMO])
        await eventually(lambda: upstream.says(world, *created), what="the pipelines that block", within=SECONDS)
        assert await upstream.runs(world)
        await telemetry.delete_samples(skr, created)
        await _leaves(world, before)


async def test_module_manager_beside_upstreams_operator_follows_the_real_module_cr(
    world: NodeClusters, upstream: GoOperator, tmp_path: Path
) -> None:
    skr, before = world.skr, await _prepared(world, upstream, tmp_path)
    manifest = tmp_path / "manifest.yaml"
    manifest.write_text(as_text(upstream.objects()))
    pipeline = {"group": telemetry.GROUP, "kind": "TracePipeline", "names": ["backend"]}
    gateway = {"kind": "ConfigMap", "names": ["telemetry-gateway"]}
    async with (
        allowed(world, MODULE, manifest, pipeline, allow=(gateway,)),
        private_registry(world, tmp_path) as registry,
        running_manager(world, tmp_path, telemetry_manager),
    ):
        await _offer(world, registry, upstream, WITH_MANAGER, enable_module_config=True)
        await world.walkthrough.set_modules([DEMO, {"name": MODULE, "managed": True}])
        await eventually(lambda: _shows(world, upstream, State.READY), what="Ready in the Kyma", within=SECONDS)
        for tenant in ("shop", "shop-of-today"):
            enriched = {"spec": {"enrichments": {"cluster": {"name": tenant}}}}
            await skr.merge_patch(TELEMETRIES, "default", enriched, SKR, field_manager="user")
            await eventually(partial(_tenant, world, tenant), what="the user's change in force", within=SECONDS)
            await eventually(partial(_shows, world, upstream, State.WARNING), what="its own state", within=SECONDS)
        await eventually(lambda: _is_the_operators(world), what="the operator's status alone", within=SECONDS)
        await consistently(lambda: _is_the_operators(world), lasting=5.0, what="the operator's status alone")
        await world.walkthrough.set_modules([DEMO])
        await _leaves(world, before)


async def _prepared(world: NodeClusters, upstream: GoOperator, folder: Path) -> set[tuple[str, str]]:
    """Have the user's cluster ready for the operator; return what there is of telemetry before."""
    before = await telemetry.left_of_telemetry(world.skr)
    await upstream.load(world, folder)
    await apply_objects(world.skr, ANY_MODULE)
    await world.skr.apply(NETWORK_POLICIES, "to-api-server", TO_API_SERVER, SKR, field_manager="user")
    return before


async def _offer(
    world: NodeClusters, registry: PrivateRegistry, upstream: GoOperator, version: str, **given: Any
) -> None:
    """Release a version whose Pod names it."""
    objects = upstream.objects()
    for container in containers_of(objects):
        container["env"].append({"name": "VERSION", "value": version})
    offered = template(MODULE, version, data=upstream.default_module_cr, **given)
    await registry.put_with_login(world, await registry.filled(offered, as_text(objects)))
    await put_in_catalog(world.kcp, release(MODULE, regular=version))


async def _shows(world: NodeClusters, upstream: GoOperator, state: State) -> bool:
    return await upstream.shown(world) == state


async def _runs(world: NodeClusters, upstream: GoOperator, version: str) -> bool:
    pods = await pods_of(world.skr, SKR, upstream.name)
    versions = [each["spec"]["containers"][0]["env"][-1]["value"] for each in pods]
    return versions == [version] and await upstream.runs(world)


async def _stays_quiet(world: NodeClusters) -> None:
    """Check that Lifecycle Manager leaves the operator's certificates when it repairs what a user deletes."""
    await eventually(lambda: telemetry.has_certificates(world.skr), what="its certificates", within=SECONDS)
    before = await telemetry.certificates(world.skr)
    deleted = await world.skr.get(CONFIG_MAPS, "telemetry-logpipelines", SKR)
    await world.skr.delete(CONFIG_MAPS, "telemetry-logpipelines", SKR)

    async def repaired() -> bool:
        found = await world.skr.list(CONFIG_MAPS, SKR)
        uids = {it["metadata"]["uid"] for it in found.items if it["metadata"]["name"] == "telemetry-logpipelines"}
        return bool(uids - {deleted["metadata"]["uid"]})

    async def unchanged() -> bool:
        return await telemetry.certificates(world.skr) == before

    await eventually(repaired, what="the ConfigMap that the user deleted", within=SECONDS)
    await consistently(unchanged, lasting=5.0, what="the operator's certificates")


async def _tenant(world: NodeClusters, name: str) -> bool:
    """Tell whether the pipeline of the Module Manager is there, and names a tenant."""
    found = (await world.skr.list(telemetry.PIPELINES["TracePipeline"])).items
    headers = [header for each in found for header in each["spec"]["output"]["otlp"].get("headers", ())]
    return [header["value"] for header in headers] == [name]


async def _is_the_operators(world: NodeClusters) -> bool:
    """Tell whether the status of the Module CR has the operator's conditions, and Lifecycle Manager owns none of it.

    The list of conditions is one field, which the operator owns with what was in it.
    """
    found = await world.skr.get(TELEMETRIES, "default", SKR)
    types = {each["type"] for each in found.get("status", {}).get("conditions", ())}
    owners = {each["manager"] for each in found["metadata"]["managedFields"] if each.get("subresource") == "status"}
    is_complete = types >= {"LogComponentsHealthy", "MetricComponentsHealthy", "TraceComponentsHealthy"}
    return is_complete and MODULE_CR_STATUS_MANAGER not in owners


async def _leaves(world: NodeClusters, before: set[tuple[str, str]]) -> None:
    """Wait until there is in the user's cluster what there was."""

    async def more() -> set[tuple[str, str]]:
        left = await telemetry.left_of_telemetry(world.skr) - before
        return {each for each in left if not each[1].startswith(telemetry.GATEWAYS)}

    async def nothing_more() -> bool:
        return not await more()

    with suppress(AssertionError):  # the next says what is left
        await eventually(nothing_more, within=SECONDS)
    assert await more() == set()
    await world.skr.delete(NETWORK_POLICIES, "to-api-server", SKR)
