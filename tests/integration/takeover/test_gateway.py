"""Behind an Istio gateway that ends TLS, the former Watchers' events reach every manager until ours are there."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest_asyncio

from kube_runtime import load_documents
from kyma_local.ports import free_port
from lifecycle_manager.contract.resources import SECRETS, WATCHERS
from lifecycle_manager.istio.controller import GATEWAYS, VIRTUAL_SERVICES
from lifecycle_manager_api import find, names
from tests.integration.istio.gateways import CRDS
from tests.integration.istio.serving import IstioGateway, listener
from tests.integration.takeover import watchers
from tests.integration.takeover.conftest import KCP, Takeover
from tests.takeover_from_go import surroundings
from tests.waiting import eventually

LABELS = {"operator.kyma-project.io/watcher-gateway": "default"}
PAINTER = "/v2/painter/event"


@dataclass
class Route:
    """The way of the events: `received` is what the listener of another manager received."""

    world: Takeover
    received: list[str]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def routed(world: Takeover, tmp_path_factory: Any) -> AsyncIterator[Route]:
    """Ours runs, and so does the gateway."""
    await _install_istio(world)
    ours, painter = free_port(), free_port()
    services = {
        "klm-controller-manager-events.kcp-system.svc.cluster.local:8082": f"https://127.0.0.1:{ours}",
        "painter-events.painting.svc.cluster.local:80": f"http://127.0.0.1:{painter}",
    }
    options = {
        "kyma_skr_listener_bind_address": f"127.0.0.1:{ours}",
        "watcher_virtual_services": True,
        "trusted_proxy_cidrs": ("127.0.0.0/8",),
    }
    before = await world.kcp.get(SECRETS, "klm-istio-gateway", "istio-system")
    async with world.running(**options), listener(painter) as received:

        async def is_ready() -> bool:
            secret = await world.kcp.get(SECRETS, "klm-istio-gateway", "istio-system")
            return secret.data["tls.crt"] != before.data["tls.crt"]

        await eventually(is_ready, what="the gateway has a certificate of its own")
        gateway = IstioGateway(world.kcp, tmp_path_factory.mktemp("gateway"), services)
        async with gateway.serving(world.event_port):
            for name in ("klm-watcher", "painter"):
                await _wait_for_route(world, name)
            yield Route(world, received)


async def _install_istio(world: Takeover) -> None:
    """Write the kinds of Istio as they are, the host of the Gateway, and another manager's Watcher CR."""
    for each in load_documents(CRDS):
        (version,) = each["spec"]["versions"]
        each["spec"]["versions"] = [{**version, "storage": False}, {**version, "name": "v1alpha3"}]  # as recorded
        await surroundings.apply(world.kcp, each, "kustomize")
    await eventually(lambda: world.kcp.mapper.resource(VIRTUAL_SERVICES.api_version, "VirtualService"))
    server = {"hosts": ["127.0.0.1"], "port": {"number": 443, "name": "https", "protocol": "HTTPS"}}
    gateway = {"metadata": {"name": "klm-watcher", "labels": LABELS}, "spec": {"servers": [server]}}
    await world.kcp.apply(GATEWAYS, "klm-watcher", gateway, KCP, field_manager="kustomize")
    spec = {
        "field": "spec",
        "gateway": {"selector": {"matchLabels": LABELS}},
        "resourceToWatch": {"group": "", "version": "v1", "resource": "configmaps"},
        "labelsToWatch": {"colour": "red"},
        "serviceInfo": {"name": "painter-events", "namespace": "painting", "port": 80},
    }
    painter = {"metadata": {"name": "painter", "labels": {names.MANAGED_BY: "painter"}}, "spec": spec}
    await world.kcp.apply(WATCHERS, "painter", painter, KCP, field_manager="kustomize")


async def _wait_for_route(world: Takeover, name: str) -> None:
    async def is_configured() -> bool:
        condition = find((await world.kcp.get(WATCHERS, name, KCP)).status.conditions, "VirtualService")
        return condition is not None and condition.reason == "Configured"

    await eventually(is_configured, what=f"the events of {name} are routed")


async def test_events_reach_every_manager_until_and_after_the_watcher_is_replaced(
    routed: Route, tmp_path: Path
) -> None:
    world = routed.world
    leaf, trusted = world.leaf, world.issued.bundle
    await world.watcher_is("WatcherStarting")

    assert await watchers.send_unsigned(world, tmp_path, leaf, trusted) == 200
    assert await watchers.send_unsigned(world, tmp_path, leaf, trusted, manager="painter") == 200
    assert routed.received == [PAINTER]
    await watchers.deliver_signed(world, tmp_path)

    await world.watcher_is("WatcherReady")
    assert await watchers.send_unsigned(world, tmp_path, leaf, trusted) == 401
    assert await watchers.send_unsigned(world, tmp_path, leaf, trusted, manager="painter") == 200
    assert routed.received == [PAINTER, PAINTER]
