"""Five faults, each found with one command, `klm explain`, and on the fleet page: the tutorial of docs/klm.md."""

import base64
import html
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from kube_runtime import dump_yaml, load_yaml
from kyma_demo.environment import Environment
from kyma_demo.walkthrough import Walkthrough
from lifecycle_manager.contract.resources import MODULE_POLICIES, MODULE_RELEASE_METAS, SECRETS, SYNC_RESOURCES
from lifecycle_manager_api import names
from lifecycle_manager_api.documents import plain
from tests import builders
from tests.integration.lifecycle_manager.catalog_entries import in_catalog, template
from tests.kinds import CONFIG_MAPS
from tests.klm import run_klm
from tests.waiting import eventually, is_gone

KCP = names.KCP_NAMESPACE
MODULE = "cloud-resources"
LABELS = {names.KYMA_NAME: "demo", names.MODULE_NAME: MODULE}
UNDERSTOOD = 90.0
OnPage = Callable[..., Awaitable[object]]


@pytest.fixture
def on_page(walkthrough: Walkthrough) -> OnPage:
    """Wait until the cluster's page shows these texts."""
    programs = walkthrough.programs
    (user,) = load_yaml(programs.manager_kubeconfig.read_text())["users"]
    address = f"http://127.0.0.1:{programs.page_port}/kymas/demo"

    async def shows(*parts: str, below: str = "") -> None:
        async with httpx.AsyncClient(trust_env=False, timeout=60) as client:

            async def shown() -> bool:
                answer = await client.get(address + below, headers={"Authorization": f"Bearer {user['user']['token']}"})
                text = " ".join(html.unescape(re.sub(r"<[^>]+>", "", answer.text)).split())
                return answer.status_code == 200 and all(part in text for part in parts)

            await eventually(shown, within=UNDERSTOOD, every=0.5, what=f"a page with {parts}")

    return shows


def says(environment: Environment, *parts: str, subject: str = "") -> Callable[[], Awaitable[str | None]]:
    """Return a check that `klm explain` has these parts in its output, and a cause by its exit code."""

    async def explained() -> str | None:
        result = await run_klm(environment.kcp_kubeconfig, "explain", "demo", *([subject] if subject else []))
        return result.text if result.code == 1 and all(part in result.text for part in parts) else None

    return explained


async def nothing() -> None:
    """Repair nothing: the block does it itself."""


async def is_in_order(environment: Environment) -> bool:
    return (await run_klm(environment.kcp_kubeconfig, "explain", "demo")).code == 0


@asynccontextmanager
async def repaired(environment: Environment, repair: Callable[[], Awaitable[object]]) -> AsyncIterator[None]:
    """Repair what the block breaks, and wait until all is in order again."""
    await eventually(lambda: is_in_order(environment), within=UNDERSTOOD, every=1.0, what="the cluster is in order")
    try:
        yield
    finally:
        await repair()
    await eventually(lambda: is_in_order(environment), within=UNDERSTOOD, every=1.0, what="the cluster is in order")


async def found(environment: Environment, *parts: str, subject: str = "") -> str:
    return await eventually(
        says(environment, *parts, subject=subject), within=UNDERSTOOD, every=1.0, what=f"an explanation with {parts}"
    )


async def test_unusable_credentials(environment: Environment, on_page: OnPage) -> None:
    kcp = environment.kcp
    secret = await kcp.get(SECRETS, "kubeconfig-demo", KCP)

    def write(config: str) -> Awaitable[object]:
        return kcp.merge_patch(SECRETS, "kubeconfig-demo", {"data": {"config": config}}, KCP, field_manager="test")

    async with repaired(environment, lambda: write(secret.data["config"])):
        await write(base64.b64encode(b"not a kubeconfig").decode())
        text = await found(environment, "✗ cluster", "kubeconfig-demo")
        await on_page("✗ cluster Secret kcp-system/kubeconfig-demo", "Next: kubectl -n kcp-system get secrets")
    assert f"next:  kubectl -n {KCP} get secrets -l {names.KYMA_NAME}=demo" in text


async def is_there(environment: Environment, name: str) -> bool:
    return not await is_gone(environment.skr.get(CONFIG_MAPS, name, names.SKR_NAMESPACE))


async def want(environment: Environment, name: str, data: dict[str, Any]) -> None:
    metadata = {"name": f"klm-nfs-{name}", "namespace": names.SKR_NAMESPACE}
    text = dump_yaml({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    document = builders.as_written(builders.sync_resource(name, text=text, module=MODULE))
    document["metadata"]["labels"] = LABELS
    await environment.kcp.apply(SYNC_RESOURCES, name, document, KCP, field_manager="test")


@asynccontextmanager
async def wanting(environment: Environment, name: str, data: dict[str, Any]) -> AsyncIterator[None]:
    await want(environment, name, data)
    try:
        yield
    finally:
        await environment.kcp.delete(SYNC_RESOURCES, name, KCP)


async def test_object_that_the_api_server_refuses(environment: Environment, on_page: OnPage) -> None:
    """It is found by the module, and by the object itself."""
    async with repaired(environment, nothing), wanting(environment, "refused", {"a": "b"}):
        await eventually(lambda: is_there(environment, "klm-nfs-refused"))
        await want(environment, "refused", {"a": {"b": "c"}})
        await found(environment, "✗ SyncResource", "refused is Error", "data.a", subject=MODULE)
        await found(environment, "✗ ConfigMap klm-nfs-refused", "data.a", subject="configmap/klm-nfs-refused")
        await on_page("✗ SyncResource refused is Error", "data.a")


async def test_module_that_its_policy_restricts(environment: Environment, on_page: OnPage) -> None:
    kcp = environment.kcp
    before = plain((await kcp.get(MODULE_POLICIES, MODULE, KCP)).spec)
    allowed = [each for each in before["namespacedResources"]["allow"] if each["kind"] != "ConfigMap"]
    stricter = before | {"namespacedResources": before["namespacedResources"] | {"allow": allowed}}

    def write(spec: dict[str, Any]) -> Awaitable[object]:
        document = {"metadata": {"name": MODULE, "namespace": KCP}, "spec": spec}
        return kcp.apply(MODULE_POLICIES, MODULE, document, KCP, field_manager="test")

    async with wanting(environment, "judged", {"a": "b"}), repaired(environment, lambda: write(before)):
        await write(stricter)
        text = await found(environment, "judged is Error", "spec.namespacedResources.allow", subject=MODULE)
        await on_page("judged is Error", "spec.namespacedResources.allow", "get modulepolicies")
    assert f"next:  kubectl -n {KCP} get modulepolicies" in text


async def test_release_that_is_held_back(environment: Environment, on_page: OnPage) -> None:
    kcp = environment.kcp
    before = await kcp.get(MODULE_RELEASE_METAS, MODULE, KCP)
    channels = [{"channel": each.channel, "version": each.version} for each in before.spec.channels]
    lower = template(MODULE, "0.0.1", enable_module_config=True, installs=False)

    def release(spec: list[dict[str, str]]) -> Awaitable[object]:
        return kcp.merge_patch(MODULE_RELEASE_METAS, MODULE, {"spec": {"channels": spec}}, KCP, field_manager="test")

    async with in_catalog(kcp, lower), repaired(environment, lambda: release(channels)):
        await release([{**each, "version": "0.0.1"} for each in channels])
        await found(environment, "✗ held back", "no module is downgraded", subject=MODULE)
        await on_page("✗ held back", "no module is downgraded")


async def test_silent_watcher(walkthrough: Walkthrough, on_page: OnPage) -> None:
    environment, programs = walkthrough.environment, walkthrough.programs
    async with repaired(environment, lambda: programs.restart("skr-watcher")):
        await programs.kill("skr-watcher")
        await found(environment, "✗ Watcher", "logs deployment/skr-webhook")
        await on_page("✗ Watcher", "logs deployment/skr-webhook")
        result = await run_klm(environment.kcp_kubeconfig, "status")
    assert result.code == 1
    assert "1 Kyma without events" in result.text


async def test_timeline_of_a_change(environment: Environment, on_page: OnPage) -> None:
    async def drawn() -> list[str] | None:
        result = await run_klm(environment.kcp_kubeconfig, "trace", "demo", MODULE)
        lines = [line for line in result.lines if "SyncResource traced" in line]
        return lines if any("wrote the status" in line for line in lines) else None

    async with repaired(environment, nothing), wanting(environment, "traced", {"a": "b"}):
        lines = await eventually(drawn, within=UNDERSTOOD, every=0.5)
        await on_page("lifecycle-manager wrote the status of SyncResource traced", below="/change")
    assert [line.partition("● ")[2] for line in lines if "content" in line] != []
    assert any("lifecycle-manager wrote the status of SyncResource traced" in " ".join(line.split()) for line in lines)
