"""The Watcher in the user cluster: repaired, and heard at any time."""

from datetime import UTC, datetime

from kube_runtime import Resource
from lifecycle_manager.contract.resources import KYMAS, SECRETS
from lifecycle_manager_api import State, names
from tests.e2e.upstream.modules import Document
from tests.e2e.upstream.product import KCP, SKR, Product
from tests.e2e.upstream.runtime import WORKLOADS
from tests.waiting import eventually

POLICIES: Resource[Document] = Resource.dynamic(
    "networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", namespaced=True
)
DEPLOYMENTS = WORKLOADS["Deployment"]


async def is_there(world: Product, resource: Resource[Document], name: str) -> None:
    async def exists() -> bool:
        return name in {each["metadata"]["name"] for each in (await world.skr.list(resource, SKR)).items}

    await eventually(exists, within=20, what=f"{name} exists")


async def channel_is(world: Product, channel: str) -> None:
    """Change the channel as a user, and wait until the control plane knows."""
    await world.skr.merge_patch(KYMAS, names.DEFAULT_KYMA_NAME, {"spec": {"channel": channel}}, SKR)

    async def is_known() -> bool:
        return (await world.kyma()).status.active_channel == channel

    await eventually(is_known, within=10, what=f"the channel is {channel}")


async def test_watcher(world: Product) -> None:
    await is_there(world, DEPLOYMENTS, "skr-webhook")
    await is_there(world, POLICIES, "skr-webhook")
    await world.skr.delete(DEPLOYMENTS, "skr-webhook", SKR)
    await is_there(world, DEPLOYMENTS, "skr-webhook")
    await world.skr.delete(SECRETS, "skr-webhook-tls", SKR)

    async def is_recreated() -> bool:
        return "skr-webhook-tls" in {each.metadata.name for each in (await world.skr.list(SECRETS, SKR)).items}

    await eventually(is_recreated, within=20, what="the Secret is there again")
    log = world.environment.logs / "lifecycle-manager.log"
    before = log.read_text().count('"watched":"Kyma kyma-system/default"')
    await channel_is(world, "fast")
    await channel_is(world, "regular")
    assert log.read_text().count('"watched":"Kyma kyma-system/default"') > before


async def test_watcher_zero_downtime(world: Product) -> None:
    """While the CA and all certificates are rotated, each change of a user is reported, and no event is refused."""
    before = await refusals(world)
    await rotate(world, "zero-downtime")
    for number in range(10):
        await channel_is(world, ("fast", "regular")[number % 2])
    assert await refusals(world) == before
    await world.kyma_is(State.READY)


async def refusals(world: Product) -> dict[str, float]:
    """Return how many events were refused, by their reasons."""
    metrics = await world.manager.metrics()
    return {name: value for name, value in metrics.items() if name.startswith("lifecycle_mgr_event_refused_total")}


async def test_self_signed_certificate_rotation(world: Product) -> None:
    name = f"{(await world.kyma()).metadata.name}-webhook-tls"
    before = await world.kcp.get(SECRETS, name, KCP)
    mounted = await world.skr.get(SECRETS, "skr-webhook-tls", SKR)
    await rotate(world, "certificates")

    async def is_renewed() -> bool:
        issued = await world.kcp.get(SECRETS, name, KCP)
        found = await world.skr.get(SECRETS, "skr-webhook-tls", SKR)
        is_other = issued.data["tls.crt"] != before.data["tls.crt"] and found.data["tls.crt"] == issued.data["tls.crt"]
        return is_other and found.data["ca.crt"] != mounted.data["ca.crt"]

    await eventually(is_renewed, within=30, what="the Watcher has another certificate")
    await world.measures(None, "lifecycle_mgr_self_signed_cert_not_renew")
    await channel_is(world, "fast")
    await channel_is(world, "regular")


async def rotate(world: Product, why: str) -> None:
    value = f"{why}-{datetime.now(UTC):%H-%M-%S}"
    patch = {"metadata": {"annotations": {f"{names.GROUP}/rotate-ca": value}}}
    await world.kcp.merge_patch(SECRETS, "klm-watcher", patch, KCP, field_manager="operator")
