"""What triggers a reconcile of a Manifest: with which urgency and cause, and what does not."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from kube_runtime import Causes, Change, Client, Manager, ObjectKey, Resource, Result
from kube_simulation import serve_simulation
from lifecycle_manager.contract.resources import KYMAS, MANIFESTS, MODULE_POLICIES, MODULE_TEMPLATES
from lifecycle_manager.contract.signals import (
    ClusterReachable,
    ClusterReplaced,
    DescriptorFound,
    ObjectChanged,
    ObjectReference,
    ReadScope,
    ResyncRequested,
    WebhookRulesChanged,
)
from lifecycle_manager.module_catalog.controller import Offers
from lifecycle_manager.module_catalog.offer import Offer
from lifecycle_manager.module_installation import Logins, ManifestSettings, setup
from lifecycle_manager.module_installation.controller import spec_changed
from lifecycle_manager.module_sources.store import ObjectStore
from lifecycle_manager.skr.connections import Connections
from lifecycle_manager_api import Manifest, names
from tests import builders
from tests.clusters import simulated_control_plane
from tests.modules import default_module_cr, group_of
from tests.waiting import eventually
from tests.world import EventLog

KCP = names.KCP_NAMESPACE
ENTRY = {"group": "", "version": "v1", "kind": "ConfigMap", "namespace": "shop", "name": "rose"}


class Fleet:
    """The Manifests of two Kymas, with the controller that runs and notes what it was asked for."""

    def __init__(self, kcp: Client) -> None:
        self.kcp = kcp
        self.manager = Manager(kcp, events=EventLog(kcp))
        offers = cast("Offers", SimpleNamespace(current=lambda: Offer.of((), ())))
        nothing = cast("Connections", None), offers, cast("ObjectStore", None), cast("Logins", None)
        self.controller = setup(self.manager, *nothing, ManifestSettings())
        self.controller.reconciles(self.note)
        self.noted: list[tuple[str, Causes]] = []

    async def note(self, key: ObjectKey, causes: Causes, _state: object) -> Result:
        self.noted.append((key.name, causes))
        return Result()

    async def put(self, *things: Any) -> None:
        for thing in things:
            resources: dict[str, Resource[Any]] = {each.kind: each for each in (MANIFESTS, MODULE_TEMPLATES, KYMAS)}
            resource = resources[thing.KIND]
            document: Any = msgspec.json.decode(msgspec.json.encode(thing))
            document["metadata"] = {
                key: value for key, value in document["metadata"].items() if key in {"name", "labels", "annotations"}
            }
            status = document.pop("status", None)
            await self.kcp.apply(resource, thing.metadata.name, document, KCP, field_manager="test")
            if status:
                patch = {"status": status}
                await self.kcp.merge_patch(resource, thing.metadata.name, patch, KCP, subresource="status")

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        stopping = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.manager.run(stopping))
            await eventually(lambda: self.manager.working and len(self.noted) >= self.count())
            self.noted.clear()
            yield
            stopping.set()

    def count(self) -> int:
        return len(self.manager.informer(MANIFESTS, namespace=KCP).cache)

    async def triggered(self, count: int) -> dict[str, Causes]:
        """Return which Manifests were reconciled, and why: without a cause the status may be relied on."""
        await eventually(lambda: len(self.noted) >= count, what=f"{count} reconciles")
        assert all(causes for _, causes in self.noted)
        return dict(self.noted)


def installed(kyma: str, module: str = "garden") -> Manifest:
    thing = builders.manifest(module, "1.0.0", kyma=kyma, status={"state": "Ready", "synced": [ENTRY]})
    default = msgspec.Raw(msgspec.json.encode(default_module_cr(module)))
    return msgspec.structs.replace(thing, spec=msgspec.structs.replace(thing.spec, resource=default))


@pytest.fixture
async def fleet() -> AsyncIterator[Fleet]:
    async with serve_simulation() as simulation, await simulated_control_plane(simulation) as kcp:
        made = Fleet(kcp)
        await made.put(installed("one"), installed("one", "orchard"), installed("two"))
        async with made.running():
            yield made


@pytest.mark.parametrize(
    ("signal", "reads_everything"),
    [
        (ResyncRequested("one"), True),
        (ClusterReplaced("one"), True),
        (ClusterReachable("one"), False),
        (WebhookRulesChanged("one"), False),
    ],
    ids=lambda it: type(it).__name__,
)
async def test_signal_enqueues_all_manifests_of_its_kyma_alone(
    fleet: Fleet, signal: object, reads_everything: bool
) -> None:
    assert fleet.manager.publish(signal) == 2
    triggered = await fleet.triggered(2)
    assert set(triggered) == {"one-garden", "one-orchard"}
    assert {ReadScope.EVERYTHING in causes for causes in triggered.values()} == {reads_everything}


async def test_policy_enqueues_the_manifests_of_its_module_alone(fleet: Fleet) -> None:
    policy = {"metadata": {"name": "garden", "namespace": KCP}, "spec": {"podSecurity": "restricted"}}
    await fleet.kcp.apply(MODULE_POLICIES, "garden", policy, KCP, field_manager="test")

    assert set(await fleet.triggered(2)) == {"one-garden", "two-garden"}
    fleet.noted.clear()
    await fleet.kcp.delete(MODULE_POLICIES, "garden", KCP)
    assert set(await fleet.triggered(2)) == {"one-garden", "two-garden"}


@pytest.mark.parametrize(
    "reference",
    [
        ObjectReference(group_of("garden"), "Garden", names.SKR_NAMESPACE, "default"),
        ObjectReference(group_of("garden"), "Garden", "anywhere", "mine"),
    ],
    ids=["default Module CR", "another of its kind"],
)
async def test_changed_module_cr_enqueues_the_module_of_its_kind(fleet: Fleet, reference: ObjectReference) -> None:
    change = ObjectChanged("one", reference, "UPDATE", "uid", "7")
    assert fleet.manager.publish(change) == 1
    triggered = await fleet.triggered(1)
    assert [(name, change in causes) for name, causes in triggered.items()] == [("one-garden", True)]


async def test_changed_object_enqueues_the_modules_that_have_it(fleet: Fleet) -> None:
    change = ObjectChanged("one", ObjectReference("", "ConfigMap", "shop", "rose"), "UPDATE", "uid", "7")
    assert fleet.manager.publish(change) == 2
    assert set(await fleet.triggered(2)) == {"one-garden", "one-orchard"}


async def test_changed_object_of_no_module_enqueues_nothing(fleet: Fleet) -> None:
    change = ObjectChanged("one", ObjectReference("", "ConfigMap", "shop", "tulip"), "UPDATE", "uid", "7")
    assert fleet.manager.publish(change) == 0


async def test_template_and_its_descriptor_enqueue_the_manifests_of_its_module(
    fleet: Fleet,
) -> None:
    template = builders.template("garden", "1.0.0")
    module = {
        "name": "garden",
        "channel": "regular",
        "state": "Ready",
        "template": {"apiVersion": "v1", "kind": "ModuleTemplate", "metadata": {"name": template.metadata.name}},
    }
    await fleet.put(builders.kyma("one", status={"state": "Ready", "modules": [module]}))
    kymas = fleet.manager.informer(KYMAS, namespace=KCP)
    await eventually(lambda: any(each.status.modules for each in kymas.list()))
    await fleet.put(template)
    assert set(await fleet.triggered(1)) == {"one-garden"}
    fleet.noted.clear()
    assert fleet.manager.publish(DescriptorFound(KCP, template.metadata.name)) == 1
    assert set(await fleet.triggered(1)) == {"one-garden"}


async def test_manifest_that_somebody_changes_is_reconciled(fleet: Fleet) -> None:
    await fleet.kcp.merge_patch(MANIFESTS, "two-garden", {"spec": {"version": "2.0.0"}}, KCP)
    assert set(await fleet.triggered(1)) == {"two-garden"}


def test_status_of_a_manifest_is_no_trigger_and_everything_else_is() -> None:
    before = builders.manifest("garden", finalizers=[names.MANIFEST_FINALIZER])
    assert not spec_changed(
        Change(before, builders.manifest("garden", finalizers=[names.MANIFEST_FINALIZER], status={"state": "Ready"}))
    )
    for after in (
        builders.manifest("garden", finalizers=[]),
        builders.manifest("garden", finalizers=[names.MANIFEST_FINALIZER], generation=2),
        builders.manifest("garden", finalizers=[names.MANIFEST_FINALIZER], annotations={names.IS_UNMANAGED: "true"}),
        builders.manifest("garden", finalizers=[names.MANIFEST_FINALIZER], labels={names.SKIP_RECONCILIATION: "true"}),
    ):
        assert spec_changed(Change(before, after))
    assert spec_changed(Change(None, before))
    assert spec_changed(Change(before, None))


async def test_owner_of_a_manifest_is_its_kyma(fleet: Fleet) -> None:
    assert fleet.controller.owners() == {"one", "two"}
