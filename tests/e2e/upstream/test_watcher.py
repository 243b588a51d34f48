"""The Watcher in the user cluster: repaired, and heard at any time."""

import asyncio
import base64
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from kube_runtime import Resource
from lifecycle_manager.contract.resources import KYMAS, SECRETS, WATCHERS
from lifecycle_manager_api import State, names
from tests.e2e.upstream.modules import Document
from tests.e2e.upstream.product import KCP, SKR, Product
from tests.e2e.upstream.runtime import WORKLOADS
from tests.kinds import WEBHOOKS
from tests.waiting import eventually

POLICIES: Resource[Document] = Resource.dynamic(
    "networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", namespaced=True
)
DEPLOYMENTS = WORKLOADS["Deployment"]
MIN_CHANGES = 10


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
    before = events_in(world)
    await channel_is(world, "fast")
    await channel_is(world, "regular")
    assert events_in(world) > before
    async with watching_status(world):
        before = events_in(world)
        state = {"status": {"state": "Warning"}}
        await world.skr.merge_patch(
            KYMAS, names.DEFAULT_KYMA_NAME, state, SKR, subresource="status", field_manager="user"
        )
        await eventually(lambda: events_in(world) > before, within=10, what="the change of the status is reported")


def events_in(world: Product) -> int:
    """Return how many events about the Kyma CR the log of Lifecycle Manager has."""
    return (world.environment.logs / "lifecycle-manager.log").read_text().count('"watched":"Kyma kyma-system/default"')


@asynccontextmanager
async def watching_status(world: Product) -> AsyncIterator[None]:
    """Have the Watcher report changes of the status of Kyma CRs until the block ends."""
    spec = {
        "manager": names.LIFECYCLE_MANAGER,
        "resourceToWatch": {"group": names.GROUP, "version": "*", "resource": "kymas"},
        "field": "status",
        "labelsToWatch": {names.WATCHED_BY: "kyma"},
        "serviceInfo": {"name": "lifecycle-manager-events", "namespace": KCP, "port": 443},
        "gateway": {"selector": {"matchLabels": {"app": "gateway"}}},
    }
    await world.kcp.create(WATCHERS, {"metadata": {"name": "of-status"}, "spec": spec}, KCP, field_manager="operator")

    async def is_watched() -> bool:
        webhooks = (await world.skr.get(WEBHOOKS, "skr-webhook"))["webhooks"]
        return ["kymas/status"] in [rule["resources"] for each in webhooks for rule in each["rules"]]

    try:
        await eventually(is_watched, within=20, what="the status of Kyma CRs is watched")
        yield
    finally:
        await world.kcp.delete(WATCHERS, "of-status", KCP)


async def test_watcher_zero_downtime(world: Product) -> None:
    """From before the CA and all certificates are rotated until after it, each change of a user is reported."""
    before, ca = await refusals(world), (await world.kcp.get(SECRETS, "klm-watcher", KCP)).data

    async def is_rotated() -> bool:
        now = (await world.kcp.get(SECRETS, "klm-watcher", KCP)).data
        trusted = base64.b64decode(now["ca.crt"]).count(b"BEGIN CERTIFICATE")
        return now["tls.crt"] != ca["tls.crt"] and trusted == 1

    await rotate(world, "zero-downtime")
    changes = itertools.count(1)
    async with asyncio.timeout(120):
        while not await is_rotated() or next(changes) < MIN_CHANGES:
            await channel_is(world, "fast")
            await channel_is(world, "regular")
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
