"""What triggers a Kyma, and what does not."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from kube_runtime import Change as ObjectChange
from lifecycle_manager.contract.conditions import CATALOG, write_condition
from lifecycle_manager.contract.resources import KYMAS, MANIFESTS, SECRETS
from lifecycle_manager.contract.signals import (
    ClusterReachable,
    ClusterReplaced,
    ObjectChanged,
    ObjectReference,
    ResyncRequested,
    UnclaimedChange,
)
from lifecycle_manager.contract.writes import write_status
from lifecycle_manager.kyma import SKR_KYMA
from lifecycle_manager.kyma.controller import report_changed, was_observed
from lifecycle_manager_api import ConditionStatus, ModuleConfig, names
from tests import builders
from tests.waiting import eventually
from tests.world import KCP, SKR, World, key_of, open_world

DEMO = key_of("demo")
Change = Callable[[World], Awaitable[Any]]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """Return a world with two Kymas, of which `demo` has a module, and whose triggers are connected."""
    async with open_world() as opened:
        await opened.offer(builders.template(installs=True), builders.release(regular="0.1.0"))
        await opened.register("demo", "cloud-resources")
        await opened.register("other")
        for name in ("demo", "other"):
            await opened.introduced(name)
        await opened.sync_caches()
        opened.manager.controllers["kyma"].connect()
        yield opened


async def write_manifest_status(world: World, **status: Any) -> None:
    metadata = (await world.kcp.get(MANIFESTS, "demo-cloud-resources", KCP)).metadata
    await write_status(world.kcp, MANIFESTS, metadata, builders.manifest(status=status).status, field_manager="other")


async def write_catalog_condition(world: World) -> None:
    syncing: tuple[ConditionStatus, str, str] = ("False", "Syncing", "in progress")
    await write_condition(world.kcp, await world.in_kcp(), CATALOG, syncing, now=builders.NOW, field_manager="catalog")


TRIGGERS: dict[str, Change] = {
    "its spec": lambda world: world.kcp.merge_patch(KYMAS, "demo", {"spec": {"channel": "fast"}}, KCP),
    "its labels": lambda world: world.label("example.com/any", "x"),
    "another domain's condition": write_catalog_condition,
    "a template of its module": lambda world: world.offer(builders.template(installs=True, requires_downtime=True)),
    "a release of its channel": lambda world: world.offer(builders.release(regular="0.2.0")),
    "its Manifest's state": lambda world: write_manifest_status(world, state="Ready"),
    "its Manifest's deletion": lambda world: world.kcp.delete(MANIFESTS, "demo-cloud-resources", KCP),
    "its ModuleConfig": lambda world: world.create(builders.module_config("config", kyma="demo")),
    "its SyncResource": lambda world: world.create(builders.sync_resource("sync", kyma="demo")),
}


@pytest.mark.parametrize("what", TRIGGERS)
async def test_kyma_is_enqueued_for(world: World, what: str) -> None:
    queue = world.manager.controllers["kyma"].queue
    await TRIGGERS[what](world)
    async with asyncio.timeout(60):
        assert await queue.get() == DEMO
    assert not len(queue)


async def move_times(world: World) -> None:
    kyma = await world.in_kcp()
    later = [
        msgspec.structs.replace(each, last_transition_time=builders.NOW + timedelta(minutes=1))
        for each in kyma.status.conditions
    ]
    status = {"status": {"conditions": msgspec.to_builtins(later)}}
    await world.kcp.merge_patch(KYMAS, "demo", status, KCP, subresource="status")


async def record(world: World) -> None:
    records = {"status": {"records": {"catalog": "x"}}}
    await world.kcp.merge_patch(KYMAS, "demo", records, KCP, subresource="status")


OTHERS: dict[str, Change] = {
    "a record on it": record,
    "times in its status": move_times,
    "another module's template": lambda world: world.offer(builders.template("nats", "1.0.0")),
    "a channel that it has not": lambda world: world.offer(builders.release(regular="0.1.0", fast="0.1.0")),
    "a Manifest of no Kyma": lambda world: world.create(
        builders.manifest("nats", kyma="nobody", labels={names.KYMA_NAME: ""})
    ),
}


@pytest.mark.parametrize("what", OTHERS)
async def test_no_kyma_is_enqueued_for(world: World, what: str) -> None:
    await OTHERS[what](world)
    await world.sync_caches()
    assert not len(world.manager.controllers["kyma"].queue)


MODULE_CR = ObjectReference("cloud-resources.kyma-project.io", "Infrastructure", "kyma-system", "default")
SIGNALS = (
    ClusterReachable("demo"),
    ResyncRequested("demo"),
    UnclaimedChange("demo"),
    ObjectChanged("demo", SKR_KYMA, "UPDATE"),
)


@pytest.mark.parametrize("signal", SIGNALS, ids=lambda signal: type(signal).__name__)
async def test_kyma_is_enqueued_by(world: World, signal: object) -> None:
    assert world.manager.publish(signal)
    assert await world.manager.controllers["kyma"].queue.get() == DEMO


@pytest.mark.parametrize(
    "reference", [MODULE_CR, SKR_KYMA._replace(name="another"), SKR_KYMA._replace(namespace="mine")]
)
async def test_kyma_is_not_enqueued_by_changes_of_other_objects(world: World, reference: ObjectReference) -> None:
    assert world.manager.publish(ObjectChanged("demo", reference, "UPDATE")) == 0


async def test_announced_change_that_a_read_does_not_show_is_read_again_soon(world: World) -> None:
    version = (await world.in_skr()).metadata.resource_version
    change = ObjectChanged("demo", SKR_KYMA, "UPDATE", resource_version=version or "")
    soon = (await world.turn("kyma", DEMO, change)).requeue_after
    assert soon is not None
    assert soon < 0.1
    await world.choose()
    later = (await world.reconcile()).requeue_after
    assert later is not None
    assert later > 1


async def has_state(world: World, state: str) -> bool:
    return (await world.in_kcp()).status.state == state


async def test_new_access_secret_triggers_the_kyma() -> None:
    async with open_world() as world:
        await world.register()
        await world.kcp.delete(SECRETS, "kubeconfig-demo", KCP)
        async with world.running():
            await eventually(lambda: has_state(world, "Error"), what="the Kyma is an Error")
            marks = {names.KYMA_NAME: "demo", names.MANAGED_BY: names.LIFECYCLE_MANAGER}
            secret = {"metadata": {"name": "kubeconfig-demo", "labels": marks}, "data": world.access("demo")}
            await world.kcp.create(SECRETS, secret, KCP, field_manager="broker")
            await eventually(lambda: has_state(world, "Processing"), what="the Kyma is reconciled")


async def test_kyma_whose_skr_had_no_kyma_cr_is_published_as_replaced() -> None:
    async with open_world() as world:
        replaced: list[ClusterReplaced] = []
        world.manager.on(ClusterReplaced, replaced.append)
        await world.register()
        await world.introduced()
        assert replaced == [], "a new Kyma has nothing that could count no more"
        await (await world.skr()).delete(KYMAS, names.DEFAULT_KYMA_NAME, SKR)
        await world.reconcile()
        assert replaced == [ClusterReplaced("demo")]


def part(reason: str, message: str, *, status: str = "False", observed: int = 1) -> ModuleConfig:
    rendered = builders.condition("Rendered", reason, message, status)
    return builders.module_config(status={"state": "Error", "observedGeneration": observed, "conditions": [rendered]})


@pytest.mark.parametrize(
    ("after", "is_report", "is_observed"),
    [
        (part("NetworkTooWide", "peering all"), False, False),
        (part("NetworkTooWide", "peering some"), True, False),
        (part("NoSuchVolume", "peering all"), True, False),
        (part("Read", "at resourceVersion 8", status="True"), True, False),
        (part("NetworkTooWide", "peering all", observed=2), False, True),
    ],
)
def test_part_of_a_kyma_is_read_again_for_another_cause_or_an_observed_change(
    after: ModuleConfig, is_report: bool, is_observed: bool
) -> None:
    change = ObjectChange(part("NetworkTooWide", "peering all"), after)
    assert (report_changed(change), was_observed(change)) == (is_report, is_observed)


def test_part_that_was_read_again_is_no_report() -> None:
    before, after = (part("Read", f"at resourceVersion {number}", status="True") for number in (7, 8))
    assert not report_changed(ObjectChange(before, after))
