"""A manager on a real control plane, with no rights but its own."""

from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

from kyma_module_manager import ModuleManager, PermanentError, module_manager
from kyma_module_manager.samples.guestbook import objects as guestbook_objects
from kyma_module_manager.testing import ManagerHarness, synced_object
from lifecycle_manager_api import State, raw_object
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


async def test_sync_resource_is_deleted_with_its_module_config(managed: Managed) -> None:
    async with managed(colours) as harness:
        await harness.write_module_cr(thing("red"))
        await harness.sync_resource()
        await harness.delete_module_cr()
        await harness.sync_resource_gone()
        await harness.module_config_gone()


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
