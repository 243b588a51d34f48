"""Ours with only the rights of its roles, on a real API server that has Istio's kinds."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from kube_runtime import Client, Manager, ManagerOptions, NotFound, NotServed, Resource
from kyma_certs import CAs, create_ca
from lifecycle_manager import istio
from lifecycle_manager.contract.resources import WATCHERS
from lifecycle_manager.istio.controller import GATEWAYS, VIRTUAL_SERVICES
from lifecycle_manager.options.shared import EventNames
from lifecycle_manager.process.crd_installation import apply_objects
from lifecycle_manager.watcher_crs import setup as setup_status
from lifecycle_manager_api import Condition, Watcher, find, names
from tests.integration.istio.gateways import CRDS
from tests.integration.restricted import restricted
from tests.integration.skr_webhook.kymas import have_control_plane
from tests.waiting import eventually

KCP, ISTIO = names.KCP_NAMESPACE, "istio-system"
HOST = "listener.kyma.example.com"
LABELS = {f"{names.GROUP}/watcher-gateway": "default"}


@dataclass(eq=False)
class Routes:
    """The control plane as an administrator sees it, and the CAs of ours."""

    kcp: Client
    ours: Client
    cas: CAs = field(default_factory=lambda: CAs(new_ca()))

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Manager, None]:
        """Run ours until the block ends."""
        manager = Manager(self.ours, ManagerOptions(name="lifecycle-manager"), namespace=KCP)
        settings = istio.IstioSettings(
            enabled=True, event_names=EventNames(address=f"{HOST}:443", additional=("127.0.0.1",))
        )
        setup_status(manager, are_routed=True)
        istio.setup(manager, lambda: self.cas, settings)
        stopping = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(manager.run(stopping))
            yield manager
            stopping.set()

    async def add_gateway(self, *hosts: str, name: str = "klm-watcher") -> None:
        server = {"hosts": list(hosts), "port": {"number": 443, "name": "https", "protocol": "HTTPS"}}
        document = {"metadata": {"name": name, "labels": LABELS}, "spec": {"servers": [server]}}
        await self.kcp.apply(GATEWAYS, name, document, KCP, field_manager="kustomize")

    async def add_watcher(self, name: str, *, port: int = 8082, manager: str = "") -> Watcher:
        spec: dict[str, Any] = {
            "field": "spec",
            "gateway": {"selector": {"matchLabels": LABELS}},
            "resourceToWatch": {"group": names.GROUP, "version": "*", "resource": "kymas"},
            "serviceInfo": {"name": f"{name}-events", "namespace": "listeners", "port": port},
        }
        labels = {names.MANAGED_BY: name}
        document = {
            "metadata": {"name": name, "labels": labels},
            "spec": spec | ({"manager": manager} if manager else {}),
        }
        return await self.kcp.apply(WATCHERS, name, document, KCP, field_manager="kustomize")

    async def virtual_service(self, name: str) -> dict[str, Any] | None:
        """Return a VirtualService, None where it does not exist."""
        try:
            return await self.kcp.get(VIRTUAL_SERVICES, name, KCP)
        except (NotFound, NotServed):
            return None

    async def reported(self, name: str, reason: str) -> Condition:
        """Wait until the condition of a Watcher CR has a reason."""

        async def condition() -> Condition | None:
            found = find((await self.kcp.get(WATCHERS, name, KCP)).status.conditions, "VirtualService")
            return found if found is not None and found.reason == reason else None

        return await eventually(condition, what=f"the VirtualService of {name} is {reason}")


def new_ca() -> Any:
    return create_ca("klm-watcher-selfsigned", lifetime=timedelta(days=3650), now=datetime.now(UTC))


@pytest_asyncio.fixture
async def world(client: Client, kcp: Path, installed_crds: None) -> AsyncIterator[Routes]:
    """A control plane with Istio's kinds; afterwards without any of their objects."""
    await have_control_plane(client)
    await apply_objects(client, CRDS)
    await apply_objects(client, f"{{apiVersion: v1, kind: Namespace, metadata: {{name: {ISTIO}}}}}")
    async with restricted(client, kcp, "kcp", "kcp-istio") as ours:
        yield Routes(client, ours)
    resources: tuple[Resource[Any], ...] = (WATCHERS, VIRTUAL_SERVICES, GATEWAYS)
    for resource in resources:
        for each in (await client.list(resource, KCP)).items:
            with suppress(NotFound, NotServed):  # it went with its Watcher CR
                await client.delete(resource, resource.key_of(each).name, KCP)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Run the tests of this folder in one worker: they share the namespace of KCP."""
    item.add_marker(pytest.mark.xdist_group("istio"))
