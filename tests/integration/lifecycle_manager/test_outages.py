"""No change is lost while a program or API server is stopped."""

import asyncio
import base64
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from kube_runtime import ClusterUnreachable, Resource, dump_yaml, load_yaml
from kyma_demo.environment import Environment
from kyma_demo.object_watcher import CONFIG_MAPS
from kyma_demo.walkthrough import Walkthrough
from lifecycle_manager.contract.resources import KYMAS, MODULE_CONFIGS, SYNC_RESOURCES
from lifecycle_manager_api import SyncResource, names
from tests.integration.lifecycle_manager.event_path import has_received, is_event_recorded, moment, webhook_message
from tests.integration.lifecycle_manager.programs import MANAGER, without
from tests.integration.lifecycle_manager.slow_webhook import blocked_config_maps
from tests.waiting import eventually

LEVELS: Resource[dict[str, Any]]
FLOWS: Resource[dict[str, Any]]
LEVELS, FLOWS = (
    Resource.dynamic("flowcontrol.apiserver.k8s.io", "v1", kind, f"{kind.lower()}s", namespaced=False)
    for kind in ("PriorityLevelConfiguration", "FlowSchema")
)


async def test_edit_while_kcp_is_down_succeeds_and_is_applied_after_its_start(walkthrough: Walkthrough) -> None:
    await walkthrough.change_volume("510Gi")
    assert walkthrough.environment.clusters is not None
    kcp = walkthrough.environment.clusters.kcp
    await kcp.stop_api_server()
    try:
        with pytest.raises(ClusterUnreachable):
            await walkthrough.environment.kcp.server_version()
        await walkthrough.patch_volume("511Gi")  # the user's write meets no error
    finally:
        await kcp.start_api_server()
    await walkthrough.wait_for_volume("511Gi", within=120)
    await walkthrough.change_volume("512Gi")


async def test_edit_while_kcp_has_too_many_requests_is_applied_after_that(walkthrough: Walkthrough) -> None:
    environment = walkthrough.environment
    await walkthrough.change_volume("550Gi")
    log = environment.logs / "lifecycle-manager.log"
    async with _only_one_request_at_a_time(environment):
        before = len(log.read_text())
        await walkthrough.patch_volume("551Gi")
        await eventually(lambda: "TooManyRequests" in log.read_text()[before:], what="a refusal in the log")
        assert "551Gi" not in str(await environment.kcp.list(MODULE_CONFIGS, names.KCP_NAMESPACE))
    await walkthrough.wait_for_volume("551Gi")
    assert "Traceback" not in log.read_text()[before:]
    # At the first refusal. The server asks for longer pauses the more it refuses.
    assert re.search(r"asks for a pause of \d s before the next request", log.read_text())
    await walkthrough.change_volume("552Gi")


@asynccontextmanager
async def _only_one_request_at_a_time(environment: Environment) -> AsyncIterator[None]:
    """Have KCP answer Lifecycle Manager with 429: its priority level has one seat, and a request that never ends."""
    kcp, ends = environment.kcp, asyncio.Event()
    config = load_yaml((environment.directory / "lifecycle-manager.kubeconfig").read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    context = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    headers = {"Authorization": f"Bearer {user['token']}", "Content-Type": "application/json"}
    seats = {"nominalConcurrencyShares": 0, "borrowingLimitPercent": 0, "limitResponse": {"type": "Reject"}}
    level = {"metadata": {"name": "one-seat"}, "spec": {"type": "Limited", "limited": seats}}
    account = {"name": "lifecycle-manager", "namespace": names.KCP_NAMESPACE}
    anything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": True}
    rules = {"subjects": [{"kind": "ServiceAccount", "serviceAccount": account}], "resourceRules": [anything]}
    flow = {"priorityLevelConfiguration": {"name": "one-seat"}, "matchingPrecedence": 2, "rules": [rules]}

    async def never_ending() -> AsyncIterator[bytes]:
        yield b"{"
        await ends.wait()

    async with httpx.AsyncClient(base_url=cluster["server"], headers=headers, verify=context, timeout=120) as client:
        path = f"/apis/{KYMAS.group}/v1beta2/namespaces/{names.KCP_NAMESPACE}"

        async def is_in_force() -> bool:
            answer = await client.get(f"{path}/kymas")
            return bool(answer.headers["X-Kubernetes-PF-PriorityLevel-UID"] == created["metadata"]["uid"])

        created = await kcp.create(LEVELS, level, field_manager="test")
        await kcp.create(FLOWS, {"metadata": {"name": "one-seat"}, "spec": flow}, field_manager="test")
        await eventually(is_in_force)
        async with asyncio.TaskGroup() as tasks:
            posts: list[asyncio.Task[httpx.Response]] = []

            async def is_seat_taken() -> bool:
                """Take it, unless another request has it just then, which is answered at once.

                No other request of ours may compete for it, and few may be refused: for these the server has others
                wait the longer before they try again.
                """
                posts.append(tasks.create_task(client.post(f"{path}/manifests?dryRun=All", content=never_ending())))
                await asyncio.wait(posts[-1:], timeout=0.5)
                return not posts[-1].done() and (await client.get(f"{path}/kymas")).status_code == 429

            try:
                await eventually(is_seat_taken)
                yield
            finally:
                ends.set()
                await kcp.delete(FLOWS, "one-seat")
                await kcp.delete(LEVELS, "one-seat")
        assert posts[-1].result().status_code == 400


async def test_edit_while_lifecycle_manager_is_stopped_is_applied_after_its_start(walkthrough: Walkthrough) -> None:
    await walkthrough.change_volume("520Gi")
    async with without(walkthrough.programs, MANAGER):
        await walkthrough.patch_volume("521Gi")
    await walkthrough.wait_for_volume("521Gi", within=120)


async def test_edit_while_the_watcher_is_stopped_is_applied_after_its_start(walkthrough: Walkthrough) -> None:
    """The change itself causes no event; the RESYNC at the Watcher's start finds it."""
    await walkthrough.change_volume("530Gi")
    async with without(walkthrough.programs, "skr-watcher"):
        await walkthrough.patch_volume("531Gi")
        began = moment()
    await eventually(lambda: has_received(walkthrough.environment, " /", began, "RESYNC"))
    await walkthrough.wait_for_volume("531Gi")


async def test_edit_while_the_module_manager_is_killed_is_applied_after_its_start(walkthrough: Walkthrough) -> None:
    await walkthrough.change_volume("540Gi")
    async with without(walkthrough.programs, "module-manager", killed=True):
        await walkthrough.patch_volume("541Gi")
    await walkthrough.wait_for_volume("541Gi")
    configs = await walkthrough.environment.kcp.list(MODULE_CONFIGS, names.KCP_NAMESPACE)
    assert any("541Gi" in config.spec.resource for config in configs.items)


async def test_silent_watcher_is_reported_and_changes_are_found_by_polling(walkthrough: Walkthrough) -> None:
    environment = walkthrough.environment
    await walkthrough.change_volume("390Gi")
    began = moment()
    async with without(walkthrough.programs, "skr-watcher"):
        message = await eventually(lambda: webhook_message(environment, "False", "WatcherSilent"))
        assert "changes are found at intervals" in message
        await eventually(
            lambda: is_event_recorded(environment, "WatcherSilent", began), within=120
        )  # repeated Events are sent late
        await walkthrough.patch_volume("391Gi")
        await walkthrough.wait_for_volume("391Gi")

    await eventually(lambda: webhook_message(environment, "True", "WatcherReady"))
    await eventually(lambda: is_event_recorded(environment, "WatcherReady", began), within=120)
    await walkthrough.change_volume("392Gi")


async def test_lifecycle_manager_killed_during_an_apply_leaves_nothing_behind(
    walkthrough: Walkthrough, tmp_path: Path
) -> None:
    """It is killed while it applies a text, which is replaced by another one before its start."""
    environment = walkthrough.environment
    document: dict[str, Any] = {
        "apiVersion": SYNC_RESOURCES.api_version,
        "kind": "SyncResource",
        "metadata": {"name": "cut-off", "namespace": names.KCP_NAMESPACE},
        "spec": {"kyma": "demo", "module": "cloud-resources", "resource": _config_maps("before", 150)},
    }
    async with AsyncExitStack() as stack:
        async with blocked_config_maps(environment, tmp_path, "before-1"):
            await environment.kcp.create(SYNC_RESOURCES, document, names.KCP_NAMESPACE, field_manager="test")
            await eventually(lambda: _named(environment, "before-"))
            await stack.enter_async_context(without(walkthrough.programs, MANAGER, killed=True))
            assert 0 < len(await _named(environment, "before-")) < 150
        document["spec"]["resource"] = _config_maps("after", 3)
        await environment.kcp.apply(SYNC_RESOURCES, "cut-off", document, names.KCP_NAMESPACE, field_manager="other")

    async def settled() -> bool:
        resource: SyncResource = await environment.kcp.get(SYNC_RESOURCES, "cut-off", names.KCP_NAMESPACE)
        return resource.status.state == "Ready" and resource.status.objects == "3/3"

    await eventually(settled)
    assert await _named(environment, "before-") == []
    assert len(await _named(environment, "after-")) == 3
    await environment.kcp.delete(SYNC_RESOURCES, "cut-off", names.KCP_NAMESPACE)


def _config_maps(prefix: str, count: int) -> str:
    return "---\n".join(
        dump_yaml(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": f"{prefix}-nfs-{n}", "namespace": names.SKR_NAMESPACE},
            }
        )
        for n in range(count)
    )


async def _named(environment: Environment, prefix: str) -> list[str]:
    listed = await environment.skr.list(CONFIG_MAPS, names.SKR_NAMESPACE)
    return [item["metadata"]["name"] for item in listed.items if item["metadata"]["name"].startswith(prefix)]
