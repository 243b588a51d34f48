"""keda-manager as upstream's module team ships it: its manifest, its manager and its default Module CR, on a real node.

KEDA_MANAGER names the folder of its source, kyma-project/keda-manager; in `bin` there is what it releases, made by

    GOFIPS140=v1.0.0 CGO_ENABLED=0 go build -o bin/manager .
    kustomize build config/default > bin/keda-manager.yaml

The images of KEDA itself, which the manager installs, can't be pulled here: the Keda CR never becomes ready.
"""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from kyma_demo import names as demo_names
from lifecycle_manager.contract.resources import CUSTOM_RESOURCE_DEFINITIONS
from lifecycle_manager.process.crd_installation import apply_objects
from lifecycle_manager_api import State, names
from tests.integration.lifecycle_manager.catalog_entries import put_in_catalog, release, template
from tests.kinds import DEPLOYMENTS, KEDAS, NAMESPACES
from tests.modules import ANY_MODULE
from tests.nodes.clusters import NodeClusters
from tests.nodes.go_operators import GoOperator, as_text, names_of, source_in
from tests.nodes.registry import private_registry
from tests.waiting import eventually, is_gone

MODULE, VERSION = "upstream-keda", "2.20.1"
SECONDS = 120.0


async def test_upstreams_module_comes_reports_its_state_and_goes(world: NodeClusters, tmp_path: Path) -> None:
    keda = GoOperator(
        source=source_in("KEDA_MANAGER"),
        module=MODULE,
        name="keda-manager",
        default="config/samples/keda-default-cr.yaml",
        module_crs=KEDAS,
        files=("bin/manager", "keda.yaml", "keda-networkpolicies.yaml", "keda-addon-networkpolicies.yaml"),
    )
    await keda.load(world, tmp_path)
    await apply_objects(world.skr, ANY_MODULE)
    async with private_registry(world, tmp_path) as registry, AsyncExitStack() as stack:
        offered = template(MODULE, VERSION, data=keda.default_module_cr)
        await registry.put_with_login(world, await registry.filled(offered, as_text(keda.objects())))
        await put_in_catalog(world.kcp, release(MODULE, regular=VERSION))
        await world.walkthrough.set_modules([{"name": demo_names.MODULE, "managed": True}, {"name": MODULE}])

        refused = f"Deployment {names.SKR_NAMESPACE}/{keda.name}: 0 of 1 replicas are updated: pods"
        await eventually(lambda: keda.says(world, refused, "violates PodSecurity"), what="why no Pod", within=SECONDS)
        await stack.enter_async_context(_enforced(world, "baseline"))  # upstream's Pod names no seccomp profile
        await eventually(lambda: keda.runs(world), what="the Pod of keda-manager", within=SECONDS)
        state = await eventually(lambda: keda.shown(world), what="the state of its Keda CR", within=SECONDS)
        assert state != State.READY
        assert await keda.synced(world) == names_of(keda.objects())

        await world.walkthrough.set_modules([{"name": demo_names.MODULE, "managed": True}])
        await eventually(lambda: _is_gone(world), what="the end of the module and of KEDA", within=SECONDS)


@asynccontextmanager
async def _enforced(world: NodeClusters, level: str) -> AsyncGenerator[None, None]:
    """Have the user's cluster enforce another Pod Security Standard where the modules are, until the block ends."""

    async def enforce(level: str) -> None:
        labels = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": level}}}
        await world.skr.merge_patch(NAMESPACES, names.SKR_NAMESPACE, labels, field_manager="user")

    await enforce(level)
    try:
        yield
    finally:
        await enforce("restricted")


async def _is_gone(world: NodeClusters) -> bool:
    left = [each["metadata"]["name"] for each in (await world.skr.list(DEPLOYMENTS, names.SKR_NAMESPACE)).items]
    crd_is_gone = await is_gone(world.skr.get(CUSTOM_RESOURCE_DEFINITIONS, "kedas.operator.kyma-project.io"))
    return crd_is_gone and not any("keda" in each for each in left)
