"""Objects of modules that somebody deletes or edits in the cluster are back at once; other changes cause no event."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import pytest_asyncio

from kube_runtime import NotFound, NotServed, Resource
from kyma_demo.environment import Environment
from kyma_demo.object_watcher import CONFIG_MAPS
from kyma_demo.walkthrough import Walkthrough
from lifecycle_manager.contract.resources import MODULE_POLICIES
from lifecycle_manager.contract.watchers import OBJECTS_WEBHOOK
from lifecycle_manager.skr_webhook.documents import NAME
from lifecycle_manager_api import names
from lifecycle_manager_api.documents import plain
from tests.integration.lifecycle_manager.conftest import LONG_INTERVALS
from tests.integration.lifecycle_manager.event_path import lines_of
from tests.integration.lifecycle_manager.programs import Manager, start_manager
from tests.integration.lifecycle_manager.test_sync_resources import (
    ALLOWED,
    becomes,
    rights,
    set_policy,
    text_of,
    write,
    written,
)
from tests.kinds import DEPLOYMENTS, WEBHOOKS
from tests.modules import config_map
from tests.waiting import eventually

KCP, SKR = names.KCP_NAMESPACE, names.SKR_NAMESPACE
Document = dict[str, Any]
NUMBERS = count()
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "painter", "namespace": SKR, "labels": {"colour": "red"}},
    "spec": {
        "selector": {"matchLabels": {"app": "painter"}},
        "template": {"metadata": {"labels": {"app": "painter"}}, "spec": {"containers": [{"name": "c", "image": "c"}]}},
    },
}


@pytest_asyncio.fixture(scope="module", loop_scope="session", autouse=True)
async def policy(walkthrough: Walkthrough, on_events_only: Manager) -> AsyncIterator[None]:
    """The module may have Deployments, and its objects are repaired on events only."""
    environment = walkthrough.environment
    before = await environment.kcp.get(MODULE_POLICIES, "cloud-resources", KCP)
    await set_policy(environment, [*ALLOWED, {"group": "apps", "kind": "Deployment"}])
    async with rights(environment, "deployments", ["apps"], ["deployments"]):
        yield
    document = {"metadata": {"name": "cloud-resources", "namespace": KCP}, "spec": plain(before.spec)}
    await environment.kcp.apply(MODULE_POLICIES, "cloud-resources", document, KCP, field_manager="test")


async def webhook_of(environment: Environment) -> Document:
    """Return the webhook for objects of modules; empty where there is none."""
    found = (await environment.skr.get(WEBHOOKS, NAME))["webhooks"]
    return next((each for each in found if each["name"] == OBJECTS_WEBHOOK), {})


async def watched(environment: Environment) -> set[str]:
    """Return the resources whose changes are reported."""
    return {name for rule in (await webhook_of(environment)).get("rules", ()) for name in rule["resources"]}


async def live(environment: Environment, name: str, resource: Resource[Document] = CONFIG_MAPS) -> Document:
    """Return an object, empty where it does not exist."""
    try:
        return await environment.skr.get(resource, name, SKR)
    except (NotFound, NotServed):
        return {}


def admitted(environment: Environment, name: str) -> list[str]:
    """Return the operations on an object that the Watcher has reported."""
    lines = lines_of(environment.logs / "skr-watcher.log", "change admitted")
    return [line["operation"] for line in lines if line["object_name"] == name]


@asynccontextmanager
async def objects(environment: Environment, *documents: Document) -> AsyncIterator[str]:
    """Have objects in the SKR whose changes are reported."""
    name = f"repairs-{next(NUMBERS)}"
    probes = [config_map(f"{name}-probe-{number}", a="1") for number in range(9)]
    async with written(environment, name, text_of(*documents, *probes)):
        await becomes(environment, name, lambda resource: bool(resource.status.synced))
        kinds = {f"{each['kind'].lower()}s" for each in documents} | {"configmaps"}

        async def covers() -> bool:
            return kinds <= await watched(environment)

        await eventually(covers, what=f"changes of {kinds} are reported")
        left = iter(probes)

        async def is_reported() -> bool:
            """Delete a probe: an API server takes a moment to use a new webhook."""
            probe = next(left)["metadata"]["name"]
            await environment.skr.delete(CONFIG_MAPS, probe, SKR)
            return bool(admitted(environment, probe)) or bool(await returns(environment, [probe], within=3))

        await eventually(is_reported)
        yield name


async def returns(environment: Environment, wanted: Iterable[str], *, within: float) -> bool:
    """Tell whether ConfigMaps exist within some seconds."""
    missing = set(wanted)

    async def are_there() -> bool:
        missing.difference_update([name for name in missing if await live(environment, name)])
        return not missing

    try:
        return await eventually(are_there, within=within, every=0.005)
    except AssertionError:
        return False


async def test_deleted_objects_are_back_at_once(environment: Environment) -> None:
    things = [f"deleted-{number}" for number in range(20)]
    async with objects(environment, *(config_map(thing, a="1") for thing in things)):
        for thing in things:
            await environment.skr.delete(CONFIG_MAPS, thing, SKR)
            assert await returns(environment, [thing], within=30)  # by its event: all intervals are longer
            assert (await live(environment, thing))["data"] == {"a": "1"}


async def test_many_objects_deleted_at_once_are_back(environment: Environment) -> None:
    things = [f"swept-{number}" for number in range(60)]
    async with objects(environment, *(config_map(thing, a="1") for thing in things)):
        await asyncio.gather(*(environment.skr.delete(CONFIG_MAPS, thing, SKR) for thing in things))
        assert await returns(environment, things, within=120)  # by a RESYNC, if the Watcher had no room


async def test_edited_fields_and_labels_are_restored(environment: Environment) -> None:
    async with objects(environment, config_map("edited", a="1"), DEPLOYMENT):
        await environment.skr.merge_patch(CONFIG_MAPS, "edited", {"data": {"a": "2"}}, SKR, field_manager="user")

        async def restored() -> bool:
            return bool((await live(environment, "edited"))["data"] == {"a": "1"})

        await eventually(restored)
        patch = {"metadata": {"labels": {"colour": "blue", names.MODULE_NAME: None}}}
        await environment.skr.merge_patch(DEPLOYMENTS, "painter", patch, SKR, field_manager="user")

        async def relabelled() -> bool:
            labels = (await live(environment, "painter", DEPLOYMENTS))["metadata"]["labels"]
            return (labels["colour"], labels.get(names.MODULE_NAME)) == ("red", "cloud-resources")

        await eventually(relabelled)


async def test_edit_of_a_large_object_is_restored(environment: Environment) -> None:
    """The API server compares the fields of both versions within its limits for such conditions."""
    large = {f"key-{number}": "x" * 50 for number in range(8_000)}
    async with objects(environment, config_map("large", **large)):
        await environment.skr.merge_patch(CONFIG_MAPS, "large", {"data": {"key-7": "y"}}, SKR, field_manager="user")

        async def restored() -> bool:
            return bool((await live(environment, "large"))["data"] == large)

        await eventually(restored)


async def test_object_with_a_finalizer_is_created_again_once_it_is_gone(environment: Environment) -> None:
    async with objects(environment, config_map("finalized", a="1")):
        finalizers: Document = {"metadata": {"finalizers": ["example.com/wait"]}}
        await environment.skr.merge_patch(CONFIG_MAPS, "finalized", finalizers, SKR, field_manager="user")
        uid = (await live(environment, "finalized"))["metadata"]["uid"]
        await environment.skr.delete(CONFIG_MAPS, "finalized", SKR)
        await eventually(lambda: admitted(environment, "finalized") == ["DELETE"])
        finalizers["metadata"]["finalizers"] = []
        await environment.skr.merge_patch(CONFIG_MAPS, "finalized", finalizers, SKR, field_manager="user")

        async def is_new() -> bool:
            found = await live(environment, "finalized")
            return bool(found) and found["metadata"]["uid"] != uid

        await eventually(is_new)


async def test_own_applies_and_fields_of_others_cause_no_event(environment: Environment) -> None:
    """A status, what a controller or an autoscaler sets, and what the Lifecycle Manager applies itself."""
    async with objects(environment, config_map("quiet", a="1"), config_map("last", a="1"), DEPLOYMENT) as name:
        before = len(admitted(environment, "painter"))
        for number in range(3):
            status = {"status": {"observedGeneration": number}}
            await environment.skr.merge_patch(DEPLOYMENTS, "painter", status, SKR, subresource="status")
            scaled = {"metadata": {"annotations": {"revision": str(number)}}, "spec": {"replicas": 2 + number}}
            await environment.skr.merge_patch(DEPLOYMENTS, "painter", scaled, SKR, field_manager="autoscaler")
            more = {"data": {"more": str(number)}, "metadata": {"annotations": {"leader": str(number)}}}
            await environment.skr.merge_patch(CONFIG_MAPS, "quiet", more, SKR, field_manager="controller")
        await write(environment, name, text_of(config_map("quiet", a="2"), config_map("last", a="1"), DEPLOYMENT))

        async def is_applied() -> bool:
            return bool((await live(environment, "quiet"))["data"] == {"a": "2", "more": "2"})

        await eventually(is_applied)
        await environment.skr.delete(CONFIG_MAPS, "last", SKR)  # its event comes after all others
        await eventually(lambda: admitted(environment, "last"))
        assert admitted(environment, "quiet") == []
        assert len(admitted(environment, "painter")) == before


async def test_policy_switches_the_repair_of_a_module_off(environment: Environment) -> None:
    async def is_left_out() -> bool:
        return not await webhook_of(environment)  # the only module with objects

    async with objects(environment, config_map("left-out", a="1")):
        patch = {"spec": {"repairOnEvents": False}}
        await environment.kcp.merge_patch(MODULE_POLICIES, "cloud-resources", patch, KCP, field_manager="test")
        try:
            await eventually(is_left_out)
        finally:
            patch = {"spec": {"repairOnEvents": True}}
            await environment.kcp.merge_patch(MODULE_POLICIES, "cloud-resources", patch, KCP, field_manager="test")
        await eventually(lambda: webhook_of(environment))


async def test_option_switches_the_repair_off(walkthrough: Walkthrough) -> None:
    environment = walkthrough.environment

    async def is_gone() -> bool:
        return not await webhook_of(environment)

    async with objects(environment, config_map("switched-off", a="1")):
        await start_manager(walkthrough.programs, *LONG_INTERVALS, "--no-repair-on-events")
        try:
            await eventually(is_gone)
        finally:
            await start_manager(walkthrough.programs, *LONG_INTERVALS)
        await eventually(lambda: webhook_of(environment))
