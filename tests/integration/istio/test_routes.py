"""The Istio gateway routes the events of each Watcher CR to its Service, as with the former version."""

from typing import Any

import pytest

from lifecycle_manager.contract.resources import WATCHERS
from lifecycle_manager.istio.controller import GATEWAYS, VIRTUAL_SERVICES
from lifecycle_manager_api import State, Watcher, find
from tests.integration.istio.conftest import HOST, KCP, Routes
from tests.waiting import eventually

FORMER = "lifecycle-manager"


def spec_of(name: str, *, prefix: str, port: int = 8082) -> dict[str, Any]:
    destination = {"host": f"{name}-events.listeners.svc.cluster.local", "port": {"number": port}}
    return {
        "gateways": ["kcp-system/klm-watcher"],
        "hosts": [HOST],
        "http": [
            {
                "name": f"kcp-system/{name}",
                "match": [{"uri": {"prefix": prefix}}],
                "route": [{"destination": destination}],
            }
        ],
    }


def owner_of(watcher: Watcher) -> dict[str, str]:
    metadata = watcher.metadata
    return {"apiVersion": watcher.api_version, "kind": "Watcher", "name": metadata.name, "uid": metadata.uid}


async def has_spec(world: Routes, name: str, spec: dict[str, Any]) -> bool:
    live = await world.virtual_service(name)
    return live is not None and live["spec"] == spec


async def state_of(world: Routes, name: str, state: State) -> bool:
    return (await world.kcp.get(WATCHERS, name, KCP)).status.state is state


async def test_events_are_routed_to_the_service_of_each_watcher_cr(world: Routes) -> None:
    await world.add_gateway(HOST)
    painter = await world.add_watcher("painter")
    await world.add_watcher("named", manager="other-manager", port=443)
    async with world.running():
        condition = await world.reported("painter", "Configured")
        await world.reported("named", "Configured")

        assert (condition.status, condition.message) == ("True", "VirtualService is configured")
        live = await world.virtual_service("painter")
        assert live is not None
        assert live["spec"] == spec_of("painter", prefix="/v2/painter/event")
        assert live["metadata"]["ownerReferences"] == [owner_of(painter)]
        assert await has_spec(world, "named", spec_of("named", prefix="/v2/other-manager/event", port=443))
        await eventually(lambda: state_of(world, "painter", State.READY))

        await world.add_watcher("painter", port=9000)
        changed = spec_of("painter", prefix="/v2/painter/event", port=9000)
        await eventually(lambda: has_spec(world, "painter", changed), what="the new port is routed")
        await world.kcp.merge_patch(VIRTUAL_SERVICES, "painter", {"spec": {"hosts": ["a"]}}, KCP, field_manager="user")
        await eventually(lambda: has_spec(world, "painter", changed), what="the edit is reverted")
        await world.kcp.delete(VIRTUAL_SERVICES, "painter", KCP)
        await eventually(lambda: has_spec(world, "painter", changed), what="the deleted one is there again")

        await world.kcp.delete(WATCHERS, "painter", KCP)

        async def is_gone() -> bool:
            return await world.virtual_service("painter") is None

        await eventually(is_gone, what="it is deleted with its Watcher CR")


async def test_gateway_that_is_gone_is_reported_until_it_is_back(world: Routes) -> None:
    await world.add_gateway(HOST)
    await world.add_watcher("painter")
    async with world.running():
        await world.reported("painter", "Configured")
        await world.kcp.delete(GATEWAYS, "klm-watcher", KCP)

        condition = await world.reported("painter", "GatewayNotFound")
        assert "operator.kyma-project.io/watcher-gateway=default" in condition.message
        await eventually(lambda: state_of(world, "painter", State.ERROR))
        ready = find((await world.kcp.get(WATCHERS, "painter", KCP)).status.conditions, "Ready")
        assert ready is not None
        assert (ready.status, ready.reason) == ("False", "GatewayNotFound")
        assert await world.virtual_service("painter") is not None

        await world.add_gateway()
        await world.reported("painter", "GatewayWithoutHosts")
        await world.add_gateway(HOST)
        await world.reported("painter", "Configured")
        await eventually(lambda: state_of(world, "painter", State.READY))


async def test_virtual_service_of_the_former_version_stays_as_it_is(world: Routes) -> None:
    await world.add_gateway(HOST)
    watcher = await world.add_watcher("painter")
    metadata = {"name": "painter", "ownerReferences": [owner_of(watcher)]}
    document = {"metadata": metadata, "spec": spec_of("painter", prefix="/v2/painter/event")}
    before = await world.kcp.create(VIRTUAL_SERVICES, document, KCP, field_manager=FORMER)
    condition = {
        "type": "VirtualService",
        "status": "True",
        "reason": "Ready",
        "message": "VirtualService is configured",
        "lastTransitionTime": "2026-08-01T08:00:00Z",
    }
    status = {"status": {"state": "Ready", "conditions": [condition]}}
    await world.kcp.apply(WATCHERS, "painter", status, KCP, field_manager=FORMER, subresource="status")
    async with world.running():
        await world.reported("painter", "Configured")
        await eventually(lambda: state_of(world, "painter", State.READY))
        assert await world.virtual_service("painter") == before


async def test_unforeseen_exception_is_reported_without_its_text(
    world: Routes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("secret")

    await world.add_gateway(HOST)
    await world.add_watcher("painter")
    monkeypatch.setattr("lifecycle_manager.istio.rules.fault_of", fail)
    async with world.running():
        condition = await world.reported("painter", "InternalError")
        assert (condition.status, "secret" in condition.message) == ("False", False)
        monkeypatch.undo()
        await world.reported("painter", "Configured")


async def test_virtual_service_of_somebody_else_is_not_touched(world: Routes) -> None:
    await world.add_gateway(HOST)
    document = {"metadata": {"name": "painter"}, "spec": {"hosts": ["shop.example.com"]}}
    before = await world.kcp.create(VIRTUAL_SERVICES, document, KCP, field_manager="shop")
    await world.add_watcher("painter")
    async with world.running():
        await world.reported("painter", "NameTaken")
        assert await world.virtual_service("painter") == before
        await world.kcp.delete(VIRTUAL_SERVICES, "painter", KCP)
        await world.reported("painter", "Configured")
