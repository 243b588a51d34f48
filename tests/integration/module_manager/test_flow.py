"""A manager on a real control plane, with no rights but its own."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

from kyma_module_manager import ModuleManager, PermanentError, module_manager
from kyma_module_manager.samples.guestbook import objects as guestbook_objects
from kyma_module_manager.testing import ManagerHarness, synced_object
from kyma_module_manager.writer import MODULE_CONFIGS, SYNC_RESOURCES
from lifecycle_manager_api import State, SyncResource, conditions, names, raw_object
from lifecycle_manager_api.names import KYMA_NAME, MODULE_NAME

Managed = Callable[[ModuleManager[Any]], AbstractAsyncContextManager[ManagerHarness]]


def thing(colour: str, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Thing",
        "metadata": {"name": "default", "namespace": "kyma-system"},
        "spec": {"colour": colour, **more},
    }


@module_manager("colours", crd=dict)
def colours(config: dict[str, Any]) -> Iterator[dict[str, Any]]:
    colour = config["spec"]["colour"]
    if colour == "octarine":
        raise PermanentError("octarine is invisible", reason="InvisibleColour")
    yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "colour"}, "data": {"colour": colour}}


async def test_module_cr_becomes_a_sync_resource_owned_by_its_module_config(managed: Managed) -> None:
    async with managed(colours) as harness:
        config = await harness.write_module_cr(thing("red"))
        written = await harness.sync_resource()

    assert "colour: red" in written.spec.resource
    assert (written.spec.kyma, written.spec.module) == (harness.kyma, "colours")
    assert written.metadata.labels[KYMA_NAME] == harness.kyma
    assert written.metadata.labels[MODULE_NAME] == "colours"
    (owner,) = written.metadata.owner_references
    assert (owner.kind, owner.name, owner.uid) == ("ModuleConfig", harness.name, config.metadata.uid)
    assert owner.controller
    assert owner.block_owner_deletion


async def test_module_cr_from_before_the_start_is_reconciled(managed: Managed) -> None:
    async with managed(module_manager("shapes", crd=dict)(lambda config: [])) as other:
        async with ManagerHarness.open(other.client, colours, other.kyma) as early:
            await early.write_module_cr(thing("red"))
            await early.module_config()
        async with managed(colours) as harness:
            await harness.sync_resource()


async def test_change_of_the_module_cr_changes_the_sync_resource(managed: Managed) -> None:
    async with managed(colours) as harness:
        for colour in ("red", "green", "red", "blue"):
            await harness.write_module_cr(thing(colour))
        written = await harness.sync_resource(lambda each: "blue" in each.spec.resource)

        assert written.spec.resource.count("colour: blue") == 1


async def test_change_without_an_effect_on_objects_writes_no_sync_resource(managed: Managed) -> None:
    async with managed(colours) as harness:
        await harness.write_module_cr(thing("red"))
        before = await harness.sync_resource()
        config = await harness.write_module_cr(thing("red", remark="the same"))
        await harness.report(State.READY)
        generation = config.metadata.generation
        await harness.module_config(lambda each: each.status.observed_generation == generation)

        assert (await harness.sync_resource()).metadata.generation == before.metadata.generation


async def test_trace_of_a_change_is_copied(managed: Managed) -> None:
    trace = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"
    async with managed(colours) as harness:
        config = await harness.write_module_cr(thing("red"))
        document = {
            "metadata": {"annotations": {names.TRACEPARENT: trace, "somebody/else": "x"}},
            "spec": {"resource": config.spec.resource.replace("red", "green")},
        }
        await harness.client.merge_patch(
            MODULE_CONFIGS, harness.name, document, names.KCP_NAMESPACE, field_manager="lifecycle-manager"
        )
        written = await harness.sync_resource(lambda each: "green" in each.spec.resource)

    assert written.metadata.annotations == {names.TRACEPARENT: trace, names.MODULE_CONFIG_GENERATION: "2"}


async def test_state_of_the_objects_is_copied_to_the_module_config(managed: Managed) -> None:
    async with managed(colours) as harness:
        await harness.write_module_cr(thing("red"))
        await harness.report(State.READY, message="1 objects are ready")
        ready = await harness.module_config(lambda each: each.status.state == State.READY)
        await harness.report(State.ERROR, reason="ApplyFailed", message="document 0: no")
        failed = await harness.module_config(lambda each: each.status.state == State.ERROR)

    condition = conditions.find(ready.status.conditions, "Ready")
    assert condition is not None
    assert (condition.status, condition.message) == ("True", "1 objects are ready")
    condition = conditions.find(failed.status.conditions, "Ready")
    assert condition is not None
    assert (condition.status, condition.reason, condition.message) == ("False", "ApplyFailed", "document 0: no")
    assert ready.status.observed_generation == ready.metadata.generation


async def test_objects_that_are_not_applied_for_long_are_processing(managed: Managed) -> None:
    async with managed(colours) as harness:
        await harness.write_module_cr(thing("red"))
        await harness.module_config(lambda each: each.status.state == State.PROCESSING)


async def test_permanent_error_is_a_condition_until_the_next_change(managed: Managed) -> None:
    async with managed(colours) as harness:
        await harness.write_module_cr(thing("octarine"))
        refused = await harness.module_config(lambda each: each.status.state == State.ERROR)
        await harness.write_module_cr(thing("red"))
        await harness.sync_resource()

    condition = conditions.find(refused.status.conditions, "Rendered")
    assert condition is not None
    assert (condition.status, condition.reason) == ("False", "InvisibleColour")


async def test_rejected_change_keeps_the_objects_of_the_last_valid_one(managed: Managed) -> None:
    async with managed(colours) as harness:
        await harness.write_module_cr(thing("red"))
        before = await harness.sync_resource()
        await harness.write_module_cr(thing("octarine"))
        await harness.module_config(lambda each: each.status.state == State.ERROR)

        assert (await harness.sync_resource()).spec.resource == before.spec.resource


async def test_failing_function_is_retried_until_it_succeeds(managed: Managed) -> None:
    runs = 0
    available = asyncio.Event()

    @module_manager("flaky-colours", crd=dict)
    async def flaky(config: dict[str, Any]) -> list[dict[str, Any]]:
        nonlocal runs
        runs += 1
        if runs < 4 or not available.is_set():
            raise ConnectionError("connection refused")
        return list(colours(config, None))  # type: ignore[arg-type]

    async with managed(flaky) as harness:
        await harness.write_module_cr(thing("red"))
        await harness.module_config(lambda each: each.status.state == State.ERROR)
        available.set()
        await harness.sync_resource()

    assert runs >= 4


async def test_sync_resource_is_deleted_with_its_module_config(managed: Managed) -> None:
    async with managed(colours) as harness:
        await harness.write_module_cr(thing("red"))
        await harness.sync_resource()
        await harness.delete_module_cr()
        await harness.sync_resource_gone()
        await harness.module_config_gone()


async def test_module_config_that_is_being_deleted_gets_no_new_sync_resource(managed: Managed) -> None:
    async with managed(colours) as harness:
        await harness.write_module_cr(thing("red"))
        await harness.sync_resource()
        await _hold(harness, MODULE_CONFIGS, ["example.com/hold"])
        await harness.delete_module_cr()
        await harness.sync_resource_gone()
        deleting = await harness.module_config(lambda each: each.status.state == State.DELETING)
        # A change during the deletion must not recreate the objects either.
        patch = {"spec": {"resource": deleting.spec.resource.replace("red", "green")}}
        await harness.client.merge_patch(MODULE_CONFIGS, harness.name, patch, names.KCP_NAMESPACE)
        await harness.module_config(lambda each: each.status.observed_generation == each.metadata.generation)
        found = await harness.client.list(SYNC_RESOURCES, names.KCP_NAMESPACE)
        await _hold(harness, MODULE_CONFIGS, [])
        await harness.module_config_gone()

    assert harness.name not in {each.metadata.name for each in found.items}


async def test_sync_resource_that_somebody_deletes_is_written_again(managed: Managed) -> None:
    async with managed(colours) as harness:
        await harness.write_module_cr(thing("red"))
        first = await harness.sync_resource()
        await harness.client.delete(SYNC_RESOURCES, harness.name, names.KCP_NAMESPACE)
        second = await harness.sync_resource(lambda each: each.metadata.uid != first.metadata.uid)

    assert second.spec.resource == first.spec.resource


async def test_sync_resource_that_somebody_edits_is_restored(managed: Managed) -> None:
    async with managed(colours) as harness:
        await harness.write_module_cr(thing("red"))
        first = await harness.sync_resource()
        patch = {"spec": {"resource": "---"}}
        edited = await harness.client.merge_patch(SYNC_RESOURCES, harness.name, patch, names.KCP_NAMESPACE)

        def restored(each: SyncResource) -> bool:
            return each.metadata.generation > edited.metadata.generation

        assert (await harness.sync_resource(restored)).spec.resource == first.spec.resource


async def test_second_stage_is_written_when_the_first_is_ready(managed: Managed) -> None:
    guestbook = {"metadata": {"name": "default", "namespace": "kyma-system"}, "spec": {"replicas": 3}}
    database = synced_object("StatefulSet", "default-database", "kyma-system", group="apps")
    async with managed(guestbook_objects) as harness:
        await harness.write_module_cr(guestbook)
        first = await harness.sync_resource()
        assert "kind: Deployment" not in first.spec.resource
        await harness.report(State.READY, [database])
        await harness.sync_resource(lambda each: "kind: Deployment" in each.spec.resource)
        await harness.report(State.PROCESSING, [database])
        shown = {"database": "Ready", "application": "Pending"}
        await harness.module_config(lambda each: raw_object(each.status.module_status) == shown)


async def test_manager_stops(managed: Managed) -> None:
    async with asyncio.timeout(60), managed(colours) as harness:
        await harness.write_module_cr(thing("red"))
        await harness.sync_resource()


async def _hold(harness: ManagerHarness, resource: Any, finalizers: list[str]) -> None:
    patch = {"metadata": {"finalizers": finalizers}}
    await harness.client.merge_patch(resource, harness.name, patch, names.KCP_NAMESPACE)
