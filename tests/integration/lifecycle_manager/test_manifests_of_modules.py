"""Modules that users choose become Manifests, and their state is shown in the Kyma CR. The tests act as the modules'
operators: they write the state of Module CRs, and delay deletions by finalizers."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

import pytest_asyncio

from kube_runtime import NotFound, NotServed, Resource
from kyma_demo.environment import Environment
from kyma_demo.walkthrough import Walkthrough
from lifecycle_manager.contract.resources import KYMAS, MANIFESTS, MODULE_RELEASE_METAS, MODULE_TEMPLATES
from lifecycle_manager_api import KymaModuleStatus, Manifest, names
from tests.integration.lifecycle_manager.catalog_entries import (
    in_catalog,
    put_in_catalog,
    release,
    template,
    with_layer,
)
from tests.kinds import CONFIG_MAPS, EVENTS
from tests.modules import Document, as_text, default_module_cr, module_crs, operator
from tests.registries import BlobServer
from tests.waiting import eventually

KCP, SKR = names.KCP_NAMESPACE, names.SKR_NAMESPACE
CLOUD_RESOURCES = {"name": "cloud-resources", "managed": True}
TELEMETRY = {"name": "telemetry", "managed": True}
MODULE_CRS = module_crs("telemetry")
HOLD = "modules.example.com/hold"


@pytest_asyncio.fixture(loop_scope="session")
async def telemetry(walkthrough: Walkthrough, layers: BlobServer) -> AsyncIterator[Walkthrough]:
    """A module with something to install, enabled in addition to the other one."""
    kcp = walkthrough.environment.kcp
    offered = (version_of_telemetry(layers, "1.0.0"), version_of_telemetry(layers, "1.1.0"))
    async with in_catalog(kcp, *offered, release("telemetry", regular="1.0.0")):
        await walkthrough.set_modules([CLOUD_RESOURCES, TELEMETRY])
        yield walkthrough
        await walkthrough.set_modules([CLOUD_RESOURCES])
        await eventually(gone(walkthrough.environment, "telemetry"))


def version_of_telemetry(layers: BlobServer, version: str) -> Document:
    """Return the template of a version that contains a CRD and a ConfigMap with the version."""
    crd = operator("telemetry", version)[:1]
    return template_with(layers, template("telemetry", version, data=default_module_cr("telemetry")), crd)


def template_with(layers: BlobServer, document: Document, objects: Iterable[Document], *finalizers: str) -> Document:
    spec = document["spec"]
    metadata = {"name": spec["moduleName"], "namespace": SKR, "finalizers": list(finalizers)}
    data = {"version": spec["version"]}
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    return with_layer(document, layers.host, layers.hold(as_text([*objects, config_map]).encode()))


async def manifest_of(environment: Environment, module: str) -> Manifest | None:
    selector = f"{names.KYMA_NAME}=demo,{names.MODULE_NAME}={module}"
    found = (await environment.kcp.list(MANIFESTS, KCP, label_selector=selector)).items
    return found[0] if found else None


def at_version(environment: Environment, module: str, version: str) -> Callable[[], Awaitable[Manifest | None]]:
    async def there() -> Manifest | None:
        manifest = await manifest_of(environment, module)
        return manifest if manifest is not None and manifest.spec.version == version else None

    return there


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


async def set_finalizers(environment: Environment, resource: Resource[Document], name: str, *finalizers: str) -> None:
    patch = {"metadata": {"finalizers": list(finalizers)}}
    await environment.skr.merge_patch(resource, name, patch, SKR, field_manager="telemetry")


async def installed(environment: Environment, version: str) -> bool:
    return bool((await environment.skr.get(CONFIG_MAPS, "telemetry", SKR))["data"] == {"version": version})


async def is_there(environment: Environment, resource: Resource[Any], name: str) -> bool:
    try:
        await environment.skr.get(resource, name, SKR)
    except (NotFound, NotServed):
        return False
    return True


async def is_event_recorded(environment: Environment, reason: str, text: str) -> bool:
    events = await environment.skr.list(EVENTS, SKR)
    return any(event["reason"] == reason and text in event["note"] for event in events.items)


async def test_module_has_a_manifest_and_shows_its_state(telemetry: Walkthrough) -> None:
    environment = telemetry.environment
    manifest = await eventually(at_version(environment, "telemetry", "1.0.0"))
    assert [owner.kind for owner in manifest.metadata.owner_references] == ["Kyma"]
    await set_state(environment, "Ready")
    status = await eventually(shown(environment, "telemetry", state="Ready", version="1.0.0"))
    assert status.manifest is None  # it is in the control plane
    assert status.ocm_component_name == "kyma-project.io/module/telemetry"
    await set_state(environment, "Error")
    status = await eventually(shown(environment, "telemetry", state="Error"))
    assert "says Error" in status.message
    await eventually(lambda: is_event_recorded(environment, "ModuleError", "says Error"))


async def test_new_version_of_the_channel_is_installed_and_a_lower_one_is_not(telemetry: Walkthrough) -> None:
    environment = telemetry.environment
    await eventually(at_version(environment, "telemetry", "1.0.0"))
    await put_in_catalog(environment.kcp, release("telemetry", regular="1.1.0"))
    await eventually(at_version(environment, "telemetry", "1.1.0"))
    await set_state(environment, "Ready")
    await eventually(shown(environment, "telemetry", state="Ready", version="1.1.0"))
    await eventually(lambda: installed(environment, "1.1.0"))
    await put_in_catalog(environment.kcp, release("telemetry", regular="1.0.0"))
    status = await eventually(shown(environment, "telemetry", state="Warning", version="1.1.0"))
    assert "1.0.0" in status.message
    assert await at_version(environment, "telemetry", "1.1.0")() is not None
    assert await installed(environment, "1.1.0")
    await eventually(lambda: is_event_recorded(environment, "ModuleWarning", "telemetry"))


async def test_unmanaged_module_keeps_its_version_until_it_is_managed_again(telemetry: Walkthrough) -> None:
    environment = telemetry.environment
    await eventually(at_version(environment, "telemetry", "1.0.0"))
    await telemetry.set_modules([CLOUD_RESOURCES, {"name": "telemetry", "managed": False}])
    await eventually(shown(environment, "telemetry", state="Unmanaged"))
    await put_in_catalog(environment.kcp, release("telemetry", regular="1.1.0"))

    async def annotated() -> bool:
        manifest = await manifest_of(environment, "telemetry")
        return manifest is not None and names.IS_UNMANAGED in manifest.metadata.annotations

    async def labels() -> Document:
        return dict((await environment.skr.get(CONFIG_MAPS, "telemetry", SKR))["metadata"]["labels"])

    async def is_released() -> bool:
        manifest = await manifest_of(environment, "telemetry")
        return manifest is not None and manifest.status.state == "Unmanaged" and names.MANAGED_BY not in await labels()

    await eventually(annotated)
    await eventually(is_released)
    assert await at_version(environment, "telemetry", "1.0.0")() is not None
    await telemetry.set_modules([CLOUD_RESOURCES, TELEMETRY])
    managed = await eventually(at_version(environment, "telemetry", "1.1.0"))
    assert names.IS_UNMANAGED not in managed.metadata.annotations
    await eventually(lambda: installed(environment, "1.1.0"))
    assert (await labels())[names.MANAGED_BY] == names.LIFECYCLE_MANAGER


async def test_removed_module_is_shown_until_its_manifest_is_deleted(telemetry: Walkthrough) -> None:
    environment = telemetry.environment
    await set_state(environment, "Ready")
    await set_finalizers(environment, MODULE_CRS, "default", HOLD)
    await telemetry.set_modules([CLOUD_RESOURCES])
    status = await eventually(shown(environment, "telemetry", state="Deleting"))
    assert status.manifest is None  # it is in the control plane
    await set_finalizers(environment, MODULE_CRS, "default")
    await eventually(gone(environment, "telemetry"))

    async def not_shown() -> bool:
        return await shown(environment, "telemetry")() is None

    await eventually(not_shown)


async def test_module_is_uninstalled_when_its_kyma_is_no_longer_selected(telemetry: Walkthrough) -> None:
    environment = telemetry.environment
    await set_state(environment, "Ready")
    await eventually(shown(environment, "telemetry", state="Ready"))
    await eventually(lambda: is_there(environment, MODULE_TEMPLATES, "telemetry-1.0.0"))
    selected = release("telemetry", regular="1.0.0", spec={"kymaSelector": {"matchLabels": {"team": "a"}}})
    await put_in_catalog(environment.kcp, selected)
    await eventually(gone(environment, "telemetry"))
    status = await eventually(shown(environment, "telemetry", state="Error", version=""))
    assert "is not released for this cluster" in status.message

    async def nothing_left() -> bool:
        entries = ((MODULE_TEMPLATES, "telemetry-1.0.0"), (MODULE_RELEASE_METAS, "telemetry"))
        objects = ((CONFIG_MAPS, "telemetry"), (MODULE_CRS, "default"))
        return not any([await is_there(environment, *each) for each in (*entries, *objects)])

    await eventually(nothing_left)
    await put_in_catalog(environment.kcp, release("telemetry", regular="1.0.0", spec={"kymaSelector": None}))
    await eventually(at_version(environment, "telemetry", "1.0.0"))
    await eventually(lambda: is_there(environment, MODULE_TEMPLATES, "telemetry-1.0.0"))
    await eventually(lambda: is_there(environment, MODULE_CRS, "default"))


async def test_unknown_module_is_reported_in_the_cluster_and_does_not_affect_others(walkthrough: Walkthrough) -> None:
    environment = walkthrough.environment
    await walkthrough.set_modules([CLOUD_RESOURCES, {"name": "tpyo", "managed": True}])
    status = await eventually(shown(environment, "tpyo", state="Warning"))
    assert "check its name" in status.message
    await eventually(lambda: is_event_recorded(environment, "ModuleWarning", "tpyo"))
    await walkthrough.change_volume("720Gi")
    await walkthrough.set_modules([CLOUD_RESOURCES])
