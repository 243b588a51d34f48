"""Two clusters of this machine, and a Lifecycle Manager's controller of Manifests for one of them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from kube_runtime import Client, ClientOptions
from kube_runtime.metrics import RuntimeMetrics
from kube_simulation import serve_simulation
from kyma_local.clusters import LocalClusters
from lifecycle_manager.process.crd_installation import apply_objects
from lifecycle_manager_api import names
from tests.clusters import simulated_control_plane
from tests.kinds import CONFIG_MAPS
from tests.manifest_clusters import Modules
from tests.real_modules.mutations import LABEL, MUTATIONS
from tests.real_modules.oracle import Kubectl, running_flux
from tests.real_modules.walk import Pair
from tests.waiting import eventually

NAMESPACE = f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: {names.SKR_NAMESPACE}}}"


@asynccontextmanager
async def open_pair(folder: Path, given: Sequence[Path] | None = None, *, with_flux: bool) -> AsyncIterator[Pair]:
    """Connect to both clusters; start them where none are given, and stop those at the end."""
    async with AsyncExitStack() as stack:
        theirs, ours = given or [
            (await stack.enter_async_context(LocalClusters.start(skrs=0))).kcp.admin_kubeconfig for _ in range(2)
        ]
        metrics = RuntimeMetrics()
        options = ClientOptions(qps=0, timeout_seconds=60, metrics=metrics)
        skr = await stack.enter_async_context(await Client.from_environment(ours, options=options))
        other = await stack.enter_async_context(
            await Client.from_environment(theirs, options=ClientOptions(qps=0, timeout_seconds=60))
        )
        for each in (skr, other):
            await apply_objects(each, NAMESPACE)
            await apply_objects(each, MUTATIONS)
            await _until_changed(each)
        simulation = await stack.enter_async_context(serve_simulation())
        kcp = await stack.enter_async_context(await simulated_control_plane(simulation))
        modules = await stack.enter_async_context(Modules(kcp, skr))
        flux = await stack.enter_async_context(running_flux(theirs, folder)) if with_flux else None
        yield Pair(other, await Kubectl.on(theirs, folder / "discovery"), modules, metrics, flux)


async def _until_changed(client: Client) -> None:
    """Wait until a cluster changes objects: a policy is in force some time after it was created."""
    probe = {"metadata": {"name": "probe", "labels": {LABEL: "probe"}}}

    async def is_changed() -> bool:
        written = await client.apply(CONFIG_MAPS, "probe", probe, "default", field_manager="test")
        await client.delete(CONFIG_MAPS, "probe", "default")
        return "injected" in written.get("data", {})

    await eventually(is_changed, what="policies change objects")
