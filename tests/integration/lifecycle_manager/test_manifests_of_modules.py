"""A module that users choose becomes a Manifest, and its state is shown in the Kyma CR. The test acts as the module's
operator: it writes the state of the Module CR."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

import pytest_asyncio

from kube_runtime import NotFound, NotServed
from kyma_demo.environment import Environment
from kyma_demo.walkthrough import Walkthrough
from lifecycle_manager.contract.resources import KYMAS, MANIFESTS
from lifecycle_manager_api import KymaModuleStatus, Manifest, names
from tests.integration.lifecycle_manager.catalog_entries import (
    in_catalog,
    release,
    template,
    with_layer,
)
from tests.kinds import EVENTS
from tests.modules import Document, as_text, default_module_cr, module_crs, operator
from tests.registries import BlobServer
from tests.waiting import eventually

KCP, SKR = names.KCP_NAMESPACE, names.SKR_NAMESPACE
CLOUD_RESOURCES = {"name": "cloud-resources", "managed": True}
TELEMETRY = {"name": "telemetry", "managed": True}
MODULE_CRS = module_crs("telemetry")


@pytest_asyncio.fixture(loop_scope="session")
async def telemetry(walkthrough: Walkthrough, layers: BlobServer) -> AsyncIterator[Walkthrough]:
    """A module with something to install, enabled in addition to the other one."""
    crd = operator("telemetry", "1.0.0")[:1]
    offered = template_with(layers, template("telemetry", "1.0.0", data=default_module_cr("telemetry")), crd)
    async with in_catalog(walkthrough.environment.kcp, offered, release("telemetry", regular="1.0.0")):
        await walkthrough.set_modules([CLOUD_RESOURCES, TELEMETRY])
        yield walkthrough
        await walkthrough.set_modules([CLOUD_RESOURCES])
        await eventually(gone(walkthrough.environment, "telemetry"))


def template_with(layers: BlobServer, document: Document, objects: Iterable[Document]) -> Document:
    """Return a template whose layer has these objects, and a ConfigMap with the version."""
    spec = document["spec"]
    metadata = {"name": spec["moduleName"], "namespace": SKR}
    data = {"version": spec["version"]}
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    return with_layer(document, layers.host, layers.hold(as_text([*objects, config_map]).encode()))


async def manifest_of(environment: Environment, module: str) -> Manifest | None:
    selector = f"{names.KYMA_NAME}=demo,{names.MODULE_NAME}={module}"
    found = (await environment.kcp.list(MANIFESTS, KCP, label_selector=selector)).items
    return found[0] if found else None


def gone(environment: Environment, module: str) -> Callable[[], Awaitable[bool]]:
    async def is_gone() -> bool:
        return await manifest_of(environment, module) is None

    return is_gone


def shown(environment: Environment, module: str, **wanted: Any) -> Callable[[], Awaitable[KymaModuleStatus | None]]:
    """Return the status of a module in the Kyma CR once it has these fields."""

    async def seen() -> KymaModuleStatus | None:
        kyma = await environment.skr.get(KYMAS, "default", SKR)
        status = next((each for each in kyma.status.modules if each.name == module), None)
        if status is None or any(getattr(status, key) != value for key, value in wanted.items()):
            return None
        return status

    return seen


async def set_state(environment: Environment, state: str) -> None:
    """Write the state of the Module CR, as the module's operator does."""

    async def written() -> bool:
        try:
            patch = {"status": {"state": state}}
            await environment.skr.merge_patch(
                MODULE_CRS, "default", patch, SKR, subresource="status", field_manager="telemetry"
            )
        except (NotFound, NotServed):
            return False
        return True

    await eventually(written)


async def is_event_recorded(environment: Environment, reason: str, text: str) -> bool:
    events = await environment.skr.list(EVENTS, SKR)
    return any(event["reason"] == reason and text in event["note"] for event in events.items)


async def test_module_has_a_manifest_and_shows_its_state(telemetry: Walkthrough) -> None:
    environment = telemetry.environment
    manifest = await eventually(lambda: manifest_of(environment, "telemetry"))
    assert [owner.kind for owner in manifest.metadata.owner_references] == ["Kyma"]
    await set_state(environment, "Ready")
    status = await eventually(shown(environment, "telemetry", state="Ready", version="1.0.0"))
    assert status.manifest is None  # it is in the control plane
    assert status.ocm_component_name == "kyma-project.io/module/telemetry"
    await set_state(environment, "Error")
    status = await eventually(shown(environment, "telemetry", state="Error"))
    assert "says Error" in status.message
    await eventually(lambda: is_event_recorded(environment, "ModuleError", "says Error"))


async def test_manifest_gets_its_labels_again_and_the_users_module_cr_stays(telemetry: Walkthrough) -> None:
    environment = telemetry.environment
    await set_state(environment, "Ready")
    await eventually(shown(environment, "telemetry", state="Ready"))
    before = await manifest_of(environment, "telemetry")
    assert before is not None
    module_cr = await environment.skr.get(MODULE_CRS, "default", SKR)

    async def is_whole() -> bool:
        (found,) = (await environment.kcp.list(MANIFESTS, KCP)).items
        assert found.metadata.uid == before.metadata.uid
        assert not found.metadata.being_deleted
        return found.metadata.labels == before.metadata.labels

    for lost in ((names.MODULE_NAME,), (names.KYMA_NAME,), (names.KYMA_NAME, names.MODULE_NAME)):
        patch = {"metadata": {"labels": dict.fromkeys(lost)}}
        await environment.kcp.merge_patch(MANIFESTS, before.metadata.name, patch, KCP, field_manager="operator")
        await eventually(is_whole)
    assert (await environment.skr.get(MODULE_CRS, "default", SKR))["metadata"]["uid"] == module_cr["metadata"]["uid"]
