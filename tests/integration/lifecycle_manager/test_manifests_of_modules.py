"""From what users choose to the Manifests of their modules, and back to what they see. The test plays the part of what
looks after Manifests: it writes their status, and holds them while they are deleted."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio

from kube_runtime import NotFound, Resource
from lifecycle_manager.resources import KYMAS, MANIFESTS, MODULE_TEMPLATES
from lifecycle_manager_api import KymaModuleStatus, Manifest, names
from local.demo.stage import Stage
from local.demo.story import Story
from tests.integration.lifecycle_manager.offers import offer, on_offer, release, template, withdraw
from tests.waiting import eventually

KCP, SKR = names.KCP_NAMESPACE, names.SKR_NAMESPACE
EVENTS: Resource[dict[str, Any]] = Resource.dynamic("events.k8s.io", "v1", "Event", "events", namespaced=True)
CLOUD_RESOURCES = {"name": "cloud-resources", "managed": True}
TELEMETRY = {"name": "telemetry", "managed": True}


@pytest_asyncio.fixture(loop_scope="session")
async def telemetry(story: Story) -> AsyncIterator[Story]:
    """A module with something to install, asked for beside the other one."""
    kcp = story.stage.kcp
    offered = (template("telemetry", "1.0.0"), template("telemetry", "1.1.0"), release("telemetry", regular="1.0.0"))
    async with on_offer(kcp, *offered):
        await story.set_modules([CLOUD_RESOURCES, TELEMETRY])
        yield story
        await story.set_modules([CLOUD_RESOURCES])
        await eventually(gone(story.stage, "telemetry"))


async def manifest_of(stage: Stage, module: str) -> Manifest | None:
    selector = f"{names.KYMA_NAME}=demo,{names.MODULE_NAME}={module}"
    found = (await stage.kcp.list(MANIFESTS, KCP, label_selector=selector)).items
    return found[0] if found else None


def at_version(stage: Stage, module: str, version: str) -> Callable[[], Awaitable[Manifest | None]]:
    async def there() -> Manifest | None:
        manifest = await manifest_of(stage, module)
        return manifest if manifest is not None and manifest.spec.version == version else None

    return there


def gone(stage: Stage, module: str) -> Callable[[], Awaitable[bool]]:
    async def is_gone() -> bool:
        return await manifest_of(stage, module) is None

    return is_gone


def shown(stage: Stage, module: str, **wanted: Any) -> Callable[[], Awaitable[KymaModuleStatus | None]]:
    """Return what users see of a module once it has these fields."""

    async def seen() -> KymaModuleStatus | None:
        kyma = await stage.skr.get(KYMAS, "default", SKR)
        status = next((each for each in kyma.status.modules if each.name == module), None)
        if status is None or any(getattr(status, key) != value for key, value in wanted.items()):
            return None
        return status

    return seen


async def say(stage: Stage, manifest: Manifest, state: str) -> None:
    status = {"state": state, "lastOperation": {"operation": f"it is {state}"}}
    document = {"metadata": {"name": manifest.metadata.name, "namespace": KCP}, "status": status}
    await stage.kcp.apply(
        MANIFESTS, manifest.metadata.name, document, KCP, field_manager="manifests", subresource="status"
    )


async def hold(stage: Stage, manifest: Manifest, *finalizers: str) -> None:
    patch = {"metadata": {"finalizers": list(finalizers)}}
    await stage.kcp.merge_patch(MANIFESTS, manifest.metadata.name, patch, KCP, field_manager="manifests")


async def told(stage: Stage, reason: str, text: str) -> bool:
    events = await stage.skr.list(EVENTS, SKR)
    return any(event["reason"] == reason and text in event["note"] for event in events.items)


async def test_module_has_a_manifest_and_shows_what_that_says(telemetry: Story) -> None:
    stage = telemetry.stage
    manifest = await eventually(at_version(stage, "telemetry", "1.0.0"))
    assert [owner.kind for owner in manifest.metadata.owner_references] == ["Kyma"]
    await say(stage, manifest, "Ready")
    status = await eventually(shown(stage, "telemetry", state="Ready", version="1.0.0"))
    assert status.manifest is not None
    assert status.ocm_component_name == "kyma-project.io/module/telemetry"
    await say(stage, manifest, "Error")
    status = await eventually(shown(stage, "telemetry", state="Error"))
    assert "it is Error" in status.message
    await eventually(lambda: told(stage, "ModuleError", "it is Error"))


async def test_new_version_of_the_channel_is_installed_and_a_lower_one_is_not(telemetry: Story) -> None:
    stage = telemetry.stage
    await eventually(at_version(stage, "telemetry", "1.0.0"))
    await offer(stage.kcp, release("telemetry", regular="1.1.0"))
    manifest = await eventually(at_version(stage, "telemetry", "1.1.0"))
    await say(stage, manifest, "Ready")
    await eventually(shown(stage, "telemetry", state="Ready", version="1.1.0"))
    await offer(stage.kcp, release("telemetry", regular="1.0.0"))
    status = await eventually(shown(stage, "telemetry", state="Warning", version="1.1.0"))
    assert "1.0.0" in status.message
    assert await at_version(stage, "telemetry", "1.1.0")() is not None
    await eventually(lambda: told(stage, "ModuleWarning", "telemetry"))


async def test_module_that_is_left_alone_keeps_its_version_until_it_is_managed_again(telemetry: Story) -> None:
    stage = telemetry.stage
    await eventually(at_version(stage, "telemetry", "1.0.0"))
    await telemetry.set_modules([CLOUD_RESOURCES, {"name": "telemetry", "managed": False}])
    await eventually(shown(stage, "telemetry", state="Unmanaged"))
    await offer(stage.kcp, release("telemetry", regular="1.1.0"))

    async def annotated() -> bool:
        manifest = await manifest_of(stage, "telemetry")
        return manifest is not None and names.IS_UNMANAGED in manifest.metadata.annotations

    await eventually(annotated)
    assert await at_version(stage, "telemetry", "1.0.0")() is not None
    await telemetry.set_modules([CLOUD_RESOURCES, TELEMETRY])
    managed = await eventually(at_version(stage, "telemetry", "1.1.0"))
    assert names.IS_UNMANAGED not in managed.metadata.annotations


async def test_removed_module_shows_until_its_manifest_has_gone(telemetry: Story) -> None:
    stage = telemetry.stage
    manifest = await eventually(at_version(stage, "telemetry", "1.0.0"))
    await hold(stage, manifest, names.MANIFEST_FINALIZER)
    await telemetry.set_modules([CLOUD_RESOURCES])
    await eventually(shown(stage, "telemetry", state="Deleting"))
    await hold(stage, manifest)
    await eventually(gone(stage, "telemetry"))

    async def forgotten() -> bool:
        return await shown(stage, "telemetry")() is None

    await eventually(forgotten)


async def test_module_that_is_not_offered_is_told_in_the_cluster_and_the_others_go_on(story: Story) -> None:
    stage = story.stage
    await story.set_modules([CLOUD_RESOURCES, {"name": "tpyo", "managed": True}])
    status = await eventually(shown(stage, "tpyo", state="Error"))
    assert "check its name" in status.message
    await eventually(lambda: told(stage, "ModuleError", "tpyo"))
    await story.change_volume("720Gi")
    await story.set_modules([CLOUD_RESOURCES])


async def test_mandatory_module_is_installed_unasked_unseen_and_goes_before_its_template(stage: Stage) -> None:
    warden = template("warden", "1.0.0", mandatory=True)
    await offer(stage.kcp, warden)
    manifest = await eventually(at_version(stage, "warden", "1.0.0"))
    assert manifest.metadata.labels[names.MANDATORY_MODULE] == "true"
    await offer(stage.kcp, template("warden", "1.1.0", mandatory=True))
    manifest = await eventually(at_version(stage, "warden", "1.1.0"))
    assert await shown(stage, "warden")() is None
    with pytest.raises(NotFound):
        await stage.skr.get(MODULE_TEMPLATES, "warden-1.0.0", SKR)

    async def held() -> bool:
        found = await stage.kcp.get(MODULE_TEMPLATES, "warden-1.1.0", KCP)
        return names.MANDATORY_FINALIZER in found.metadata.finalizers

    await eventually(held)
    await withdraw(stage.kcp, warden)
    await hold(stage, manifest, names.MANIFEST_FINALIZER)
    await withdraw(stage.kcp, template("warden", "1.1.0"))

    async def going() -> bool:
        found = await manifest_of(stage, "warden")
        return found is not None and found.metadata.deletion_timestamp is not None

    await eventually(going)
    assert (await stage.kcp.get(MODULE_TEMPLATES, "warden-1.1.0", KCP)).metadata.deletion_timestamp is not None
    await hold(stage, manifest)

    async def both_gone() -> bool:
        left = (await stage.kcp.list(MODULE_TEMPLATES, KCP)).items
        return await manifest_of(stage, "warden") is None and not any("warden" in each.metadata.name for each in left)

    await eventually(both_gone)
