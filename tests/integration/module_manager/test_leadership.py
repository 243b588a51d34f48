"""Several replicas of one manager: one reconciles, and another takes over when it stops."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from kube_runtime import Client
from kube_runtime.leases.lease import LEASES, Lease, LeaseTiming
from kyma_module_manager import ModuleManager, module_manager
from kyma_module_manager.rights import lease_namespace_of
from kyma_module_manager.service import ManagerService, ServiceOptions
from kyma_module_manager.testing import ManagerHarness
from kyma_module_manager.testing.plugin import ControlPlane
from lifecycle_manager_api import ObjectMeta
from tests.waiting import eventually

# Renewed often, and valid for long enough on a busy machine: no test waits until it expires.
TIMING = LeaseTiming(lease_seconds=30, act_seconds=20.0, renew_seconds=0.3)


class NoteSpec(msgspec.Struct, frozen=True):
    text: str


class Note(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    spec: NoteSpec


@dataclass
class Replica:
    service: ManagerService[Any]
    stop: asyncio.Event
    seen: list[str]

    @property
    def leads(self) -> bool:
        return self.service.leads


def manager_that_notes(module: str, seen: list[str]) -> ModuleManager[Any]:
    @module_manager(module, crd=Note)
    def objects(note: Note) -> list[dict[str, Any]]:
        seen.append(note.spec.text)
        metadata = {"name": "note", "namespace": "default"}
        return [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": note.spec.text}}]

    return objects


@asynccontextmanager
async def replica(client: Client, manager: ModuleManager[Any], seen: list[str]) -> AsyncIterator[Replica]:
    """Run a replica while the block runs."""
    options = ServiceOptions(
        health_host="127.0.0.1", health_port=0, leader_elect=True, lease=TIMING, identity=f"replica-{uuid4().hex[:6]}"
    )
    made = Replica(ManagerService(manager, client, options), asyncio.Event(), seen)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(made.service.run(made.stop))
        yield made
        made.stop.set()


def note(text: str) -> str:
    return f"apiVersion: example.com/v1\nkind: Note\nmetadata: {{name: default}}\nspec: {{text: {text}}}\n"


@pytest.fixture
async def admin(control_plane: ControlPlane) -> AsyncIterator[Client]:
    async with await Client.from_kubeconfig(control_plane.admin_kubeconfig) as made:
        yield made


async def leases_of(admin: Client, module: str) -> tuple[Lease, ...]:
    selector = f"kube-runtime/group=module-manager-{module}"
    return tuple((await admin.list(LEASES, lease_namespace_of(module), label_selector=selector)).items)


async def agreed(admin: Client, module: str) -> bool:
    """Tell whether two replicas know each other."""
    views = [each.metadata.annotations["kube-runtime/view"].split() for each in await leases_of(admin, module)]
    return [len(view) for view in views] == [2, 2]


async def test_one_replica_reconciles_and_another_takes_over(own: Client, admin: Client) -> None:
    module = f"notes-{uuid4().hex[:6]}"
    seen_first, seen_second = list[str](), list[str]()
    manager_first, manager_second = manager_that_notes(module, seen_first), manager_that_notes(module, seen_second)
    async with (
        replica(own, manager_first, seen_first) as first,
        replica(own, manager_second, seen_second) as second,
        ManagerHarness.open(admin, manager_first, "kyma-a") as harness,
    ):
        await eventually(partial(agreed, admin, module), within=60)
        await eventually(lambda: first.leads != second.leads, within=60)
        leader, standby = sorted((first, second), key=lambda each: not each.leads)
        await harness.write_module_cr(note("one"))
        await harness.sync_resource(lambda it: "one" in it.spec.resource)
        assert standby.seen == []

        leader.stop.set()
        await eventually(lambda: standby.leads, within=60)
        await harness.write_module_cr(note("two"))

        await harness.sync_resource(lambda it: "two" in it.spec.resource)
        assert "two" not in leader.seen


async def test_replica_whose_lease_is_taken_stops_reconciling_until_it_has_another(own: Client, admin: Client) -> None:
    module = f"notes-{uuid4().hex[:6]}"
    seen: list[str] = []
    manager = manager_that_notes(module, seen)
    async with replica(own, manager, seen) as only, ManagerHarness.open(admin, manager, "kyma-b") as harness:
        await eventually(lambda: only.leads, within=60)
        (taken,) = await leases_of(admin, module)

        stolen = {"spec": {"holderIdentity": "somebody else"}}
        await admin.merge_patch(LEASES, taken.metadata.name, stolen, lease_namespace_of(module))

        await eventually(lambda: not only.leads, every=0.001)
        await eventually(lambda: only.leads, within=60)
        (lease,) = await leases_of(admin, module)
        assert lease.metadata.name != taken.metadata.name
        await harness.write_module_cr(note("one"))
        await harness.sync_resource(lambda it: "one" in it.spec.resource)
