"""Several replicas of one manager: one works, and another takes over when it goes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from kube_runtime import Client
from kube_runtime.leases import LeaseTiming
from kyma_module_manager import ModuleManager, module_manager
from kyma_module_manager.exceptions import LeadershipLost
from kyma_module_manager.service import ManagerService, ServiceOptions
from kyma_module_manager.testing import ManagerHarness
from kyma_module_manager.testing.plugin import ControlPlane
from lifecycle_manager_api import ObjectMeta
from tests.waiting import eventually

# Looked after often, and long enough for a machine that stands still; it is released or taken here, never waited out.
OFTEN = LeaseTiming(lease_seconds=30, act_seconds=20.0, renew_seconds=0.3)


class NoteSpec(msgspec.Struct, frozen=True):
    """What a note says."""

    text: str


class Note(msgspec.Struct, frozen=True):
    """The Module CR of these tests."""

    metadata: ObjectMeta
    spec: NoteSpec


@dataclass
class Replica:
    """One process of a manager, as far as a test can tell it from the others."""

    service: ManagerService[Any]
    stop: asyncio.Event
    seen: list[str]

    @property
    def leads(self) -> bool:
        """Tell whether it may act."""
        return self.service._election is not None and self.service._election.is_leader


def manager_that_notes(module: str, seen: list[str]) -> ModuleManager[Any]:
    @module_manager(module, crd=Note)
    def objects(note: Note) -> list[dict[str, Any]]:
        seen.append(note.spec.text)
        metadata = {"name": "note", "namespace": "default"}
        return [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": note.spec.text}}]

    return objects


@asynccontextmanager
async def replica(client: Client, module: str, *, expect_loss: bool = False) -> AsyncIterator[Replica]:
    """Run a replica while the block runs."""
    seen: list[str] = []
    options = ServiceOptions(health_host="127.0.0.1", health_port=0, leader_elect=True, lease=OFTEN)
    made = Replica(ManagerService(manager_that_notes(module, seen), client, options), asyncio.Event(), seen)
    running = asyncio.ensure_future(made.service.run(made.stop))
    try:
        yield made
    finally:
        if expect_loss:
            with pytest.raises(ExceptionGroup) as ended:
                await asyncio.wait_for(running, 60)
            assert ended.group_contains(LeadershipLost)
        else:
            made.stop.set()
            await running


def note(text: str) -> str:
    return f"apiVersion: example.com/v1\nkind: Note\nmetadata: {{name: default}}\nspec: {{text: {text}}}\n"


@pytest.fixture
async def admin(control_plane: ControlPlane) -> AsyncIterator[Client]:
    """The rights of Lifecycle Manager and of the test."""
    async with await Client.from_kubeconfig(control_plane.admin_kubeconfig) as made:
        yield made


async def test_one_works_and_the_next_takes_over_what_came_meanwhile(own: Client, admin: Client) -> None:
    module = f"notes-{uuid4().hex[:6]}"
    async with replica(own, module) as second, replica(own, module) as first:
        pair = (first, second)
        await eventually(lambda: any(each.leads for each in pair), within=60)
        leader, standby = sorted(pair, key=lambda each: not each.leads)
        async with ManagerHarness.open(admin, leader.service._manager, "kyma-a") as harness:
            await harness.write_module_cr(note("one"))
            await harness.sync_resource(lambda it: "one" in it.spec.resource)
            assert standby.seen == []

            leader.stop.set()
            await eventually(lambda: standby.leads, within=60)
            await harness.write_module_cr(note("two"))

            await harness.sync_resource(lambda it: "two" in it.spec.resource)
            assert "two" not in leader.seen


async def test_leader_whose_lease_is_taken_ends(own: Client, admin: Client) -> None:
    module = f"notes-{uuid4().hex[:6]}"
    async with replica(own, module, expect_loss=True) as only:
        await eventually(lambda: only.leads, within=60)
        leases = await admin.mapper.resource("coordination.k8s.io/v1", "Lease")

        stolen = {"spec": {"holderIdentity": "somebody else"}}
        await admin.merge_patch(leases, f"module-manager-{module}", stolen, "kcp-system")

        await eventually(lambda: not only.leads, within=15)  # by looking: it could act for longer
