"""A user's change is applied to the cluster, also when objects are deleted or modules are disabled."""

from typing import Any

from kube_runtime import NotFound, NotServed
from kyma_demo.environment import infrastructure
from kyma_demo.module_cr import ready_of
from kyma_demo.object_watcher import CONFIG_MAPS
from kyma_demo.user import INFRASTRUCTURES
from kyma_demo.walkthrough import Walkthrough
from lifecycle_manager.contract.resources import KYMAS, MODULE_CONFIGS, SYNC_RESOURCES
from lifecycle_manager_api import ModuleConfig, SyncResource, find, names
from tests.integration.lifecycle_manager.event_path import lines_of
from tests.kinds import EVENTS
from tests.waiting import eventually

NAMESPACE = names.KCP_NAMESPACE
CONFIG = "demo-cloud-resources"


async def get_or_none(read: Any) -> Any:
    try:
        return await read
    except (NotFound, NotServed):
        return None


async def test_change_is_applied_and_shown_in_every_status(walkthrough: Walkthrough) -> None:
    await walkthrough.change_volume("110Gi")
    kcp = walkthrough.environment.kcp

    async def all_ready() -> tuple[ModuleConfig, SyncResource] | None:
        config = await kcp.get(MODULE_CONFIGS, CONFIG, NAMESPACE)
        sync = await kcp.get(SYNC_RESOURCES, CONFIG, NAMESPACE)
        seen = sync.status.observed_generation == sync.metadata.generation
        return (config, sync) if seen and config.status.state == sync.status.state == "Ready" else None

    config, sync = await eventually(all_ready)
    assert "110Gi" in config.spec.resource
    assert config.metadata.labels[names.KYMA_NAME] == config.spec.kyma == "demo"
    assert config.metadata.labels[names.MODULE_NAME] == config.spec.module == "cloud-resources"
    synced = find(config.status.conditions, "Synced")
    assert synced is not None
    assert synced.status == "True"
    assert {entry.kind for entry in sync.status.synced} == {"ConfigMap", "PersistentVolume", "NetworkPolicy"}
    assert [reference.kind for reference in sync.metadata.owner_references] == ["ModuleConfig"]


async def test_mistake_of_a_user_is_explained_in_their_kyma_until_it_is_corrected(walkthrough: Walkthrough) -> None:
    environment = walkthrough.environment
    await walkthrough.change_volume("125Gi")
    skr = environment.skr
    cause = "Infrastructure bad: VPC peering all: remoteNetwork 0.0.0.0/0 is the whole internet (NetworkTooWide)"
    bad = infrastructure("bad", {}, {"all": "0.0.0.0/0"})

    async def is_reported(state: str, reason: str, message: str) -> bool:
        kyma = await skr.get(KYMAS, "default", "kyma-system")
        ready = find(kyma.status.conditions, "Ready")
        (module,) = kyma.status.modules
        assert CONFIG not in str(kyma.status)
        assert ready is not None
        return (kyma.status.state, ready.reason, module.message) == (state, reason, message)

    async def notes() -> bool:
        events = (await skr.list(EVENTS, "kyma-system")).items
        return f"module cloud-resources: {cause}" in [event["note"] for event in events]

    await skr.create(INFRASTRUCTURES, bad, "kyma-system", field_manager="user")
    try:
        await eventually(lambda: is_reported("Error", "ModuleError", cause), what="the Kyma explains the mistake")
        await eventually(notes, what="an Event explains the mistake")
        corrected = infrastructure("bad", {}, {"all": "10.0.0.0/16"})
        await skr.merge_patch(INFRASTRUCTURES, "bad", {"spec": corrected["spec"]}, "kyma-system", field_manager="user")
        await eventually(lambda: is_reported("Ready", "Ready", ""), what="the Kyma is ready again")
    finally:
        await skr.delete(INFRASTRUCTURES, "bad", "kyma-system")


async def test_kyma_in_kcp_does_not_contain_the_spec_of_users(walkthrough: Walkthrough) -> None:
    outer = await walkthrough.environment.kcp.get(KYMAS, "demo", NAMESPACE)
    inner = await walkthrough.environment.skr.get(KYMAS, "default", "kyma-system")
    assert [module.name for module in inner.spec.modules] == ["cloud-resources"]
    assert outer.spec.modules == ()


async def test_change_of_user_metadata_causes_no_event(walkthrough: Walkthrough) -> None:
    await walkthrough.change_volume("130Gi")

    async def is_reported_to_user() -> bool:
        return ready_of(await walkthrough.environment.skr.get(INFRASTRUCTURES, "default", "kyma-system"))[0]

    await eventually(is_reported_to_user)  # a write beside that of the status would be tried, and admitted, twice
    before = len(admitted(walkthrough))
    patch = {"metadata": {"annotations": {"mine": "note"}}}
    await walkthrough.environment.skr.merge_patch(
        INFRASTRUCTURES, "default", patch, "kyma-system", field_manager="test"
    )
    await walkthrough.change_volume("131Gi")
    assert len(admitted(walkthrough)) - before <= 1


def admitted(walkthrough: Walkthrough) -> list[dict[str, Any]]:
    """Return the changes of the Infrastructure that the Watcher has admitted."""
    lines = lines_of(walkthrough.environment.logs / "skr-watcher.log", "change admitted")
    return [line for line in lines if (line["kind"], line["object_name"]) == ("Infrastructure", "default")]


async def test_second_module_cr_has_its_own_module_config_which_is_deleted_with_it(walkthrough: Walkthrough) -> None:
    environment = walkthrough.environment
    await walkthrough.change_volume("140Gi")
    await walkthrough.create_second("logs", "10Gi")

    async def config_of_second() -> ModuleConfig | None:
        listed = await environment.kcp.list(MODULE_CONFIGS, NAMESPACE)
        found = [it for it in listed.items if it.spec.resource_ref and it.spec.resource_ref.name == "second"]
        return found[0] if found else None

    config = await eventually(config_of_second)
    assert config.metadata.name.startswith(f"{CONFIG}-")
    await environment.skr.delete(INFRASTRUCTURES, "second", "kyma-system")

    async def gone() -> bool:
        left = [
            await get_or_none(environment.kcp.get(MODULE_CONFIGS, config.metadata.name, NAMESPACE)),
            await get_or_none(environment.kcp.get(SYNC_RESOURCES, config.metadata.name, NAMESPACE)),
            await get_or_none(environment.skr.get(CONFIG_MAPS, "second-nfs-logs", "kyma-system")),
        ]
        return left == [None, None, None]

    await eventually(gone)


async def test_kyma_cr_deleted_by_a_user_is_created_again(walkthrough: Walkthrough) -> None:
    environment = walkthrough.environment
    before = await environment.skr.get(KYMAS, "default", "kyma-system")
    await environment.skr.delete(KYMAS, "default", "kyma-system")

    async def created_again() -> bool:
        kyma = await get_or_none(environment.skr.get(KYMAS, "default", "kyma-system"))
        return kyma is not None and kyma.metadata.uid != before.metadata.uid

    await eventually(created_again)
    await walkthrough.set_modules([{"name": "cloud-resources", "managed": True}])
    await walkthrough.change_volume("170Gi")
