"""The end of a ModuleConfig: its objects are deleted with it, and nothing else is affected."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from kyma_demo.environment import Environment
from kyma_demo.object_watcher import CONFIG_MAPS
from kyma_demo.user import INFRASTRUCTURES
from kyma_demo.walkthrough import Walkthrough
from lifecycle_manager.contract.resources import KYMAS, MODULE_CONFIGS, MODULE_TEMPLATES, SECRETS, SYNC_RESOURCES
from lifecycle_manager_api import names
from tests.integration.lifecycle_manager.kymas import remove_kyma
from tests.kinds import WEBHOOKS
from tests.waiting import eventually, is_gone

KCP, SKR = names.KCP_NAMESPACE, names.SKR_NAMESPACE
CONFIG = "demo-cloud-resources"
TEMPLATE = "cloud-resources-0.1.0"
VOLUME = "default-nfs-media"


async def wait_until_deleted(environment: Environment) -> None:
    """Wait until ModuleConfig, SyncResource and the objects in the SKR are deleted."""
    for read in (
        lambda: environment.kcp.get(MODULE_CONFIGS, CONFIG, KCP),
        lambda: environment.kcp.get(SYNC_RESOURCES, CONFIG, KCP),
        lambda: environment.skr.get(CONFIG_MAPS, VOLUME, SKR),
    ):
        await eventually(lambda read=read: is_gone(read()))  # type: ignore[misc]


async def test_module_config_is_deleted_when_its_template_disables_it(walkthrough: Walkthrough) -> None:
    environment = walkthrough.environment
    await walkthrough.change_volume("210Gi")
    await environment.kcp.merge_patch(MODULE_TEMPLATES, TEMPLATE, {"spec": {"enableModuleConfig": False}}, KCP)
    try:
        await wait_until_deleted(environment)
        kept = await environment.skr.get(INFRASTRUCTURES, "default", SKR)
        assert kept["spec"]["nfsVolumes"][0]["capacity"] == "210Gi"

        async def says_nothing() -> bool:
            return not (await environment.skr.get(INFRASTRUCTURES, "default", SKR)).get("status")

        await eventually(says_nothing)
    finally:
        await environment.kcp.merge_patch(MODULE_TEMPLATES, TEMPLATE, {"spec": {"enableModuleConfig": True}}, KCP)
    await walkthrough.wait_for_volume("210Gi")


@pytest.mark.usefixtures("on_events_only")
async def test_change_made_before_the_webhook_covers_the_kind_is_found(walkthrough: Walkthrough) -> None:
    environment = walkthrough.environment
    await walkthrough.change_volume("220Gi")
    await environment.kcp.merge_patch(MODULE_TEMPLATES, TEMPLATE, {"spec": {"enableModuleConfig": False}}, KCP)
    try:
        await wait_until_deleted(environment)
        await eventually(lambda: _watches_infrastructures(environment, False))
    finally:
        await environment.kcp.merge_patch(MODULE_TEMPLATES, TEMPLATE, {"spec": {"enableModuleConfig": True}}, KCP)
    number = 9_000  # sizes that no other test uses
    await walkthrough.patch_volume(f"{number}Gi")
    while not await _watches_infrastructures(environment, True):
        number += 1
        await walkthrough.patch_volume(f"{number}Gi")
    await walkthrough.wait_for_volume(f"{number}Gi")


async def test_secret_referred_to_by_a_module_cr_is_not_read(walkthrough: Walkthrough) -> None:
    environment = walkthrough.environment
    secret = {
        "metadata": {"name": "of-the-user", "namespace": SKR},
        "data": {"password": base64.b64encode(b"very-private").decode()},
    }
    await environment.skr.create(SECRETS, secret, SKR, field_manager="user")
    referring = {"metadata": {"annotations": {"secret": "of-the-user"}}}
    await environment.skr.merge_patch(INFRASTRUCTURES, "default", referring, SKR, field_manager="user")

    await walkthrough.change_volume("230Gi")

    config = await environment.kcp.get(MODULE_CONFIGS, CONFIG, KCP)
    assert "of-the-user" in config.spec.resource
    assert "very-private" not in config.spec.resource
    in_kcp = await environment.kcp.list(SECRETS, KCP)
    assert secret["data"] not in [dict(each.data) for each in in_kcp.items]
    await environment.skr.delete(SECRETS, "of-the-user", SKR)


async def test_last_of_many_changes_is_applied(walkthrough: Walkthrough) -> None:
    await walkthrough.change_volume("240Gi")
    for number in range(30):
        await walkthrough.patch_volume(f"{241 + number}Gi")

    await walkthrough.wait_for_volume("270Gi")
    config = await walkthrough.environment.kcp.get(MODULE_CONFIGS, CONFIG, KCP)
    assert "270Gi" in config.spec.resource


async def test_kyma_deleted_after_its_cluster_leaves_nothing_in_the_control_plane(walkthrough: Walkthrough) -> None:
    """The cluster is deleted first, then its credentials, then its Kyma."""
    environment = walkthrough.environment
    async with second_kyma(environment, "short-lived"):
        await eventually(lambda: _has_config(environment, "short-lived"))
        await environment.kcp.delete(SECRETS, "kubeconfig-short-lived", KCP)

        await environment.kcp.delete(KYMAS, "short-lived", KCP)

        await eventually(lambda: is_gone(environment.kcp.get(KYMAS, "short-lived", KCP)))
        assert not await _has_config(environment, "short-lived")
        left = [each.metadata.name for each in (await environment.kcp.list(SYNC_RESOURCES, KCP)).items]
        assert not [name for name in left if name.startswith("short-lived")]


async def _watches_infrastructures(environment: Environment, wanted: bool) -> bool:
    webhook = await environment.skr.get(WEBHOOKS, "skr-webhook")
    resources = {name for hook in webhook["webhooks"] for rule in hook["rules"] for name in rule["resources"]}
    return ("infrastructures" in resources) is wanted


async def _has_config(environment: Environment, kyma: str) -> bool:
    configs = await environment.kcp.list(MODULE_CONFIGS, KCP)
    return any(config.spec.kyma == kyma for config in configs.items)


@asynccontextmanager
async def second_kyma(environment: Environment, name: str) -> AsyncIterator[None]:
    """Create another Kyma for the same cluster, and so with the same modules.

    Its kubeconfig has another address, because a second Kyma with the same address is refused.
    """
    access = await environment.kcp.get(SECRETS, "kubeconfig-demo", KCP)
    labels = {names.KYMA_NAME: name, names.MANAGED_BY: names.LIFECYCLE_MANAGER}
    kubeconfig = base64.b64decode(access.data["config"]).replace(b"https://127.0.0.1:", b"https://localhost:")
    data = {"config": base64.b64encode(kubeconfig).decode()}
    secret = {"metadata": {"name": f"kubeconfig-{name}", "labels": labels}, "data": data}
    kyma = {"metadata": {"name": name, "labels": {names.RUNTIME_ID: name}}, "spec": {"channel": "regular"}}
    await environment.kcp.create(SECRETS, secret, KCP, field_manager="test")
    await environment.kcp.create(KYMAS, kyma, KCP, field_manager="test")
    try:
        yield
    finally:
        await remove_kyma(environment, name)
