"""Module CRs that users leave block the removal of a module that a Module Manager runs; then it goes by itself."""

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest_asyncio

from kube_runtime import NotFound, NotServed, dump_yaml
from kyma_demo.environment import Environment
from kyma_demo.object_watcher import CONFIG_MAPS
from kyma_demo.user import INFRASTRUCTURES
from kyma_demo.walkthrough import Walkthrough
from lifecycle_manager.contract.resources import KYMAS, SYNC_RESOURCES
from lifecycle_manager_api import KymaModuleStatus, names
from tests.integration.lifecycle_manager.test_module_configs import VOLUME, wait_until_deleted
from tests.integration.lifecycle_manager.test_module_cr_status import has_ready, infrastructure
from tests.waiting import eventually, is_gone

KCP, SKR = names.KCP_NAMESPACE, names.SKR_NAMESPACE
MODULE = {"name": "cloud-resources", "managed": True}
BLOCKED = "is being removed: delete its Module CRs first: Infrastructure default (ModuleCRsInUse)"


@pytest_asyncio.fixture(loop_scope="session")
async def enabled(walkthrough: Walkthrough) -> AsyncIterator[Walkthrough]:
    """The module is enabled, and in the end again, with its Module CR."""
    await walkthrough.change_volume("410Gi")
    await has_ready(walkthrough, "True")
    yield walkthrough
    with suppress(NotFound, NotServed):  # else a test that has failed would leave both
        await walkthrough.environment.kcp.delete(SYNC_RESOURCES, "of-no-owner", KCP)
    with suppress(NotFound, NotServed):
        await release(walkthrough.environment)
    await walkthrough.set_modules([MODULE])
    await walkthrough.change_volume("490Gi")
    await has_ready(walkthrough, "True")


async def release(environment: Environment) -> None:
    """Remove the finalizer of the user's Module CR."""
    released: dict[str, Any] = {"metadata": {"finalizers": []}}
    await environment.skr.merge_patch(INFRASTRUCTURES, "default", released, SKR, field_manager="user")


async def module_of(environment: Environment) -> KymaModuleStatus | None:
    kyma = await environment.skr.get(KYMAS, names.DEFAULT_KYMA_NAME, SKR)
    return next((each for each in kyma.status.modules if each.name == "cloud-resources"), None)


async def is_blocked(environment: Environment) -> bool:
    found = await module_of(environment)
    return found is not None and (found.state, found.message) == ("Deleting", BLOCKED)


async def test_module_is_in_force_until_its_module_crs_are_deleted_and_then_gone(enabled: Walkthrough) -> None:
    environment = enabled.environment
    before = await environment.skr.get(CONFIG_MAPS, VOLUME, SKR)
    unowned = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "of-no-owner-nfs-data", "namespace": SKR}}
    spec = {"kyma": "demo", "module": "cloud-resources", "resource": dump_yaml(unowned)}
    document = {"metadata": {"name": "of-no-owner", "namespace": KCP}, "spec": spec}
    await environment.kcp.apply(SYNC_RESOURCES, "of-no-owner", document, KCP, field_manager="test")

    async def unowned_is_gone() -> bool:
        return await is_gone(environment.skr.get(CONFIG_MAPS, "of-no-owner-nfs-data", SKR))

    async def is_applied() -> bool:
        return not await unowned_is_gone()

    await eventually(is_applied)
    await enabled.set_modules([])
    await eventually(lambda: is_blocked(environment))
    kyma = await environment.skr.get(KYMAS, names.DEFAULT_KYMA_NAME, SKR)
    assert kyma.status.state == "Processing"

    await enabled.change_volume("420Gi")
    module_cr = await has_ready(enabled, "True")
    assert module_cr["status"]["state"] == "Ready"
    after = await environment.skr.get(CONFIG_MAPS, VOLUME, SKR)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert await is_blocked(environment)

    held = {"metadata": {"finalizers": ["example.com/users"]}}
    await environment.skr.merge_patch(INFRASTRUCTURES, "default", held, SKR, field_manager="user")
    await environment.skr.delete(INFRASTRUCTURES, "default", SKR)
    await wait_until_deleted(environment)
    deleting = await infrastructure(enabled)
    assert deleting["status"]["state"] == "Deleting"
    await release(environment)

    async def is_forgotten() -> bool:
        in_kcp = await environment.kcp.get(KYMAS, "demo", KCP)
        return await module_of(environment) is None and not in_kcp.status.modules

    await eventually(is_forgotten)
    await eventually(lambda: is_gone(environment.kcp.get(SYNC_RESOURCES, "of-no-owner", KCP)))
    await eventually(unowned_is_gone)
    assert not (await environment.skr.list(INFRASTRUCTURES, SKR)).items
