"""ModuleConfigs of a module that has, or gets, a namespace of its own in KCP."""

import pytest

from kube_runtime import KubeError
from kube_simulation import ApiRequest, Refuse
from lifecycle_manager.contract.resources import MODULE_CONFIGS, NAMESPACES
from lifecycle_manager.contract.signals import ReadScope
from lifecycle_manager_api import names
from tests.unit.module_config.test_controller import MODULE, NAME, Module, changed, module
from tests.world import KCP, NO_API

OWN = "module-cloud-resources"


async def own_namespace(it: Module, label: str = MODULE, name: str = OWN) -> None:
    document = {"metadata": {"name": name, "labels": {names.MODULE_NAME: label}}}
    await it.world.kcp.apply(NAMESPACES, name, document, field_manager="operator")


async def texts(it: Module) -> dict[tuple[str, str], str]:
    """Return the values in all ModuleConfigs, by namespace and name."""
    found = (await it.world.kcp.list(MODULE_CONFIGS)).items
    values = ("one", "two", "three")
    return {
        (each.metadata.namespace, each.metadata.name): next(value for value in values if value in each.spec.resource)
        for each in found
    }


async def test_module_config_is_written_in_the_own_namespace_of_its_module() -> None:
    async with module() as it:
        await own_namespace(it)
        await it.write("one")
        await it.reconcile()
        assert await texts(it) == {(OWN, NAME): "one"}
        await own_namespace(it, label="telemetry")
        await it.reconcile(ReadScope.EVERYTHING)
        assert await texts(it) == {(KCP, NAME): "one", (OWN, NAME): "one"}  # what is another module's is left alone


async def test_former_module_configs_follow_the_users_and_get_no_company() -> None:
    async with module() as it:
        await it.write("one")
        await it.reconcile()
        await own_namespace(it)
        await it.write("two")
        await it.write("three", "second")
        await it.reconcile(ReadScope.EVERYTHING)
        found = await texts(it)
        assert found[KCP, NAME] == found[OWN, NAME] == "two"
        assert sorted(namespace for namespace, _ in found) == [KCP, OWN, OWN]
        await it.delete()
        await it.reconcile(changed(operation="DELETE"))
        assert [namespace for namespace, _ in await texts(it)] == [OWN]


async def test_former_module_config_follows_the_users_while_nothing_can_be_written_in_the_own_namespace() -> None:
    def is_own(request: ApiRequest) -> bool:
        return request.is_write and OWN in request.path

    async with module() as it:
        await it.write("one")
        await it.reconcile()
        await own_namespace(it)
        await it.write("two")
        with it.world.cluster("kcp").ruled_by(Refuse(is_own, refused=NO_API)), pytest.raises(KubeError):
            await it.reconcile(ReadScope.EVERYTHING)
        assert await texts(it) == {(KCP, NAME): "two"}


async def test_change_of_a_module_that_does_not_move_costs_no_more_requests() -> None:
    """One read in the SKR, and one write."""
    async with module() as it:
        await own_namespace(it)
        await it.write("one")
        await it.reconcile()
        await it.write("two")
        before = it.world.requests
        await it.reconcile(changed())
        writes = it.world.cluster("kcp").requests(lambda record: record.is_write, since=before)
        assert [(each.namespace, each.name) for each in writes] == [(OWN, NAME)]
        assert it.requests(before) == ["get"]
