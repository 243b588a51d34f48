"""The Watcher in the user cluster: repaired, and heard at any time."""

import asyncio
import base64
import itertools
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest_asyncio

from kube_runtime import Resource
from kyma_local.ports import free_port
from lifecycle_manager.contract.resources import KYMAS, SECRETS, WATCHERS
from lifecycle_manager.process.crd_installation import apply_objects
from lifecycle_manager.watcher_certificates.cert_manager import CERTIFICATES
from lifecycle_manager_api import State, names
from tests.e2e.upstream.modules import Document
from tests.e2e.upstream.product import KCP, KYMA, SKR, Product
from tests.e2e.upstream.runtime import WORKLOADS
from tests.integration.cert_manager import RIGHTS, fetch_crds, simulate_controller
from tests.integration.lifecycle_manager.programs import Manager, start_manager, with_options
from tests.kinds import NETWORK_POLICIES, ROLE_BINDINGS, WEBHOOKS
from tests.waiting import eventually

DEPLOYMENTS = WORKLOADS["Deployment"]
ROTATIONS = 3
PAUSE_SECONDS = 0.1  # between changes of a user


async def is_there(world: Product, resource: Resource[Document], name: str) -> None:
    async def exists() -> bool:
        return name in {each["metadata"]["name"] for each in (await world.skr.list(resource, SKR)).items}

    await eventually(exists, what=f"{name} exists")


async def channel_is(world: Product, channel: str) -> None:
    """Change the channel as a user, and wait until the control plane knows."""
    await world.skr.merge_patch(KYMAS, names.DEFAULT_KYMA_NAME, {"spec": {"channel": channel}}, SKR)

    async def is_known() -> bool:
        return (await world.kyma()).status.active_channel == channel

    await eventually(is_known, what=f"the channel is {channel}")


@pytest_asyncio.fixture(autouse=True, loop_scope="session")
async def regular_again(world: Product) -> AsyncIterator[None]:
    """Leave the channel that the other scenarios need, whatever becomes of a test."""
    yield
    await channel_is(world, "regular")


async def test_watcher(world: Product) -> None:
    await is_there(world, DEPLOYMENTS, "skr-webhook")
    assert (await world.watcher_environment())["HEARTBEAT_SECONDS"] == os.environ["HEARTBEAT_SECONDS"]
    await is_there(world, NETWORK_POLICIES, "skr-webhook")
    await world.skr.delete(DEPLOYMENTS, "skr-webhook", SKR)
    await is_there(world, DEPLOYMENTS, "skr-webhook")
    await world.skr.delete(SECRETS, "skr-webhook-tls", SKR)

    async def is_recreated() -> bool:
        return "skr-webhook-tls" in {each.metadata.name for each in (await world.skr.list(SECRETS, SKR)).items}

    await eventually(is_recreated, what="the Secret is there again")
    async with denying_all(world), watching(world):
        before = events_in(world)
        await channel_is(world, "fast")
        await channel_is(world, "regular")  # both may be found at the interval before their events are taken
        await eventually(lambda: events_in(world) > before, what="the changes are reported")
        await watch(world, "status")
        before = events_in(world)
        state = {"status": {"state": "Warning"}}
        await world.skr.merge_patch(
            KYMAS, names.DEFAULT_KYMA_NAME, state, SKR, subresource="status", field_manager="user"
        )
        await eventually(lambda: events_in(world) > before, what="the change of the status is reported")


def events_in(world: Product) -> int:
    """Return how many events about the Kyma CR the log of Lifecycle Manager has."""
    return (world.environment.logs / "lifecycle-manager.log").read_text().count('"watched":"Kyma kyma-system/default"')


@asynccontextmanager
async def denying_all(world: Product) -> AsyncIterator[None]:
    """Deny all connections of Pods that no other policy allows, and check what that of the Watcher allows."""
    name, spec = "kyma-project.io--deny-all-ingress", {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    await world.skr.create(NETWORK_POLICIES, {"metadata": {"name": name}, "spec": spec}, SKR, field_manager="user")
    policy = (await world.skr.get(NETWORK_POLICIES, "skr-webhook", SKR))["spec"]
    deployment = (await world.skr.get(DEPLOYMENTS, "skr-webhook", SKR))["spec"]["template"]
    (container,) = deployment["spec"]["containers"]
    assert policy["podSelector"]["matchLabels"].items() <= deployment["metadata"]["labels"].items()
    served = {(each["containerPort"], "TCP") for each in container["ports"]}
    (kcp,) = (each["value"].rpartition(":")[2] for each in container["env"] if each["name"] == "KCP_ADDR")
    assert allowed(policy["ingress"]) == served
    assert {(int(kcp), "TCP"), (53, "UDP"), (53, "TCP")} <= allowed(policy["egress"])
    try:
        yield
    finally:
        await world.skr.delete(NETWORK_POLICIES, name, SKR)


def allowed(rules: list[Document]) -> set[tuple[int, str]]:
    """Return the ports that rules allow for all addresses."""
    assert not any(rule.keys() - {"ports"} for rule in rules)
    return {(port["port"], port["protocol"]) for rule in rules for port in rule["ports"]}


@asynccontextmanager
async def watching(world: Product) -> AsyncIterator[None]:
    """Have a Watcher CR for the spec of Kyma CRs until the block ends."""
    spec = {
        "manager": names.LIFECYCLE_MANAGER,
        "resourceToWatch": {"group": names.GROUP, "version": "*", "resource": "kymas"},
        "field": "spec",
        "labelsToWatch": {names.WATCHED_BY: "kyma"},
        "serviceInfo": {"name": "lifecycle-manager-events", "namespace": KCP, "port": 443},
        "gateway": {"selector": {"matchLabels": {"app": "gateway"}}},
    }
    await world.kcp.create(WATCHERS, {"metadata": {"name": "klm-watcher"}, "spec": spec}, KCP, field_manager="operator")
    try:
        await watch(world, "spec")
        yield
    finally:
        await world.kcp.delete(WATCHERS, "klm-watcher", KCP)


async def watch(world: Product, part: str) -> None:
    """Change which part of Kyma CRs is watched, and wait until the webhook is for that part alone."""
    await world.kcp.merge_patch(WATCHERS, "klm-watcher", {"spec": {"field": part}}, KCP, field_manager="operator")
    wanted = {"spec": "kymas", "status": "kymas/status"}[part]

    async def is_watched() -> bool:
        webhooks = (await world.skr.get(WEBHOOKS, "skr-webhook"))["webhooks"]
        found = {name for each in webhooks for rule in each["rules"] for name in rule["resources"]}
        return {name for name in found if name.startswith("kymas")} == {wanted}

    await eventually(is_watched, what=f"the {part} of Kyma CRs is watched")


async def test_watcher_zero_downtime(world: Product) -> None:
    """From before the CA and all certificates are rotated until after it, each change of a user is reported."""
    watcher, before = await restarted_watcher(world), await refusals(world)
    changes = itertools.count()
    for number in range(ROTATIONS):
        ca = (await world.kcp.get(SECRETS, "klm-watcher", KCP)).data["tls.crt"]
        await rotate(world, f"zero-downtime-{number}")
        async with asyncio.timeout(120):
            while not await is_rotated(world, ca):
                await channel_is(world, ("fast", "regular")[next(changes) % 2])
                await asyncio.sleep(PAUSE_SECONDS)
    made = next(changes)
    assert made >= ROTATIONS
    assert await refusals(world) == before
    sent = await watcher.metrics()
    assert sent["watcher_kcp_requests_total"] >= made
    assert not [name for name in sent if name.startswith("watcher_failed_kcp_total")]
    await channel_is(world, "regular")
    await world.kyma_is(State.READY)


async def restarted_watcher(world: Product) -> Manager:
    """Start the Watcher again with a metrics server, and wait until it has sent what it sends at its start."""
    port, programs = free_port(), world.programs
    await programs.start(with_options(programs.started["skr-watcher"], METRICS_PORT=str(port)))
    watcher = Manager(programs.running["skr-watcher"], port)

    async def has_sent() -> bool:
        with suppress(httpx.TransportError):
            return (await watcher.metrics())["watcher_kcp_requests_total"] > 0
        return False

    await eventually(has_sent, what="the Watcher has sent an event")
    return watcher


async def is_rotated(world: Product, former: str) -> bool:
    """Tell whether another CA issues, and it alone is trusted."""
    now = (await world.kcp.get(SECRETS, "klm-watcher", KCP)).data
    return now["tls.crt"] != former and base64.b64decode(now["ca.crt"]).count(b"BEGIN CERTIFICATE") == 1


async def refusals(world: Product) -> dict[str, float]:
    """Return how many events were refused, by their reasons."""
    metrics = await world.manager.metrics()
    return {name: value for name, value in metrics.items() if name.startswith("lifecycle_mgr_event_refused_total")}


@asynccontextmanager
async def issued_by_cert_manager(world: Product, crds: str) -> AsyncIterator[None]:
    """Have cert-manager issue the Watchers' certificates until the block ends, and a late renewal reported at once."""
    await apply_objects(world.kcp, crds)
    await apply_objects(world.kcp, RIGHTS)
    options = ("--cert-management=cert-manager.io/v1", "--self-signed-cert-renew-buffer=0s")
    world.manager = await start_manager(world.programs, *options)
    try:
        yield
    finally:
        world.manager = await start_manager(world.programs)
        await world.kcp.delete(ROLE_BINDINGS, "lifecycle-manager-cert-manager", KCP)


async def test_self_signed_certificate_rotation(world: Product, tmp_path: Path) -> None:
    """While cert-manager is stopped, the metric says that a certificate of the former CA was not renewed."""
    name, metric = f"{KYMA}-webhook-tls", "lifecycle_mgr_self_signed_cert_not_renew"
    async with issued_by_cert_manager(world, fetch_crds(tmp_path)):

        async def is_asked() -> bool:
            return name in {each["metadata"]["name"] for each in (await world.kcp.list(CERTIFICATES, KCP)).items}

        await eventually(is_asked, what="the Certificate exists")
        assert await world.sample(metric, kyma_name=KYMA) is None
        before = await world.kcp.get(SECRETS, name, KCP)
        await rotate(world, "certificates")
        await world.measures(1.0, metric, kyma_name=KYMA)
        async with simulate_controller(world.kcp):
            await world.measures(None, metric, kyma_name=KYMA)

            async def is_renewed() -> bool:
                issued = (await world.kcp.get(SECRETS, name, KCP)).data["tls.crt"]
                found = (await world.skr.get(SECRETS, "skr-webhook-tls", SKR)).data["tls.crt"]
                return found == issued != before.data["tls.crt"]

            await eventually(is_renewed, what="the Watcher has another certificate")
    await channel_is(world, "fast")
    await channel_is(world, "regular")


async def rotate(world: Product, why: str) -> None:
    value = f"{why}-{datetime.now(UTC):%H-%M-%S}"
    patch = {"metadata": {"annotations": {f"{names.GROUP}/rotate-ca": value}}}
    await world.kcp.merge_patch(SECRETS, "klm-watcher", patch, KCP, field_manager="operator")
