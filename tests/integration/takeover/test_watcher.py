"""The Watcher is installed over the former one, and no event is lost in between."""

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from kube_runtime import JsonObject
from kyma_certs import describe
from lifecycle_manager.contract.resources import SECRETS, WATCHERS
from lifecycle_manager_api import names
from tests.integration.takeover import watchers
from tests.integration.takeover.conftest import KCP, Takeover
from tests.integration.takeover.test_modules import managers_of
from tests.takeover_from_go.starts import KYMA
from tests.waiting import eventually, is_gone

DEPLOYMENT = ("apps/v1", "Deployment", "skr-webhook")
SECRET = ("v1", "Secret", "skr-webhook-tls")
PRIORITY = ("scheduling.k8s.io/v1", "PriorityClass", "skr-webhook-priority")
SERVICE = ("v1", "Service", "skr-webhook")
WEBHOOK = ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "skr-webhook")
REPLACED = (DEPLOYMENT, SECRET, PRIORITY, SERVICE)
OURS = "lifecycle-manager-skr-webhook"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def before(world: Takeover) -> dict[str, JsonObject]:
    return {each[1]: await world.stored(*each) for each in (*REPLACED, WEBHOOK)}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def running(world: Takeover, before: dict[str, JsonObject]) -> AsyncIterator[Takeover]:
    assert before
    async with world.running():
        yield world


def uid_of(live: JsonObject) -> Any:
    return live["metadata"]["uid"]


async def test_objects_of_the_former_watcher_become_ours(running: Takeover, before: dict[str, JsonObject]) -> None:
    await running.watcher_is("WatcherStarting")
    for each in REPLACED:
        live = await running.stored(*each)
        assert (uid_of(live), managers_of(live)) == (uid_of(before[each[1]]), {OURS})
    pod = (await running.stored(*DEPLOYMENT))["spec"]["template"]["spec"]
    assert [each["name"] for each in pod["volumes"]] == ["tls"]
    assert [each["name"] for each in pod["containers"][0]["volumeMounts"]] == ["tls"]
    assert {"TLS_CALLBACK", "POD_NAME"}.isdisjoint(each["name"] for each in pod["containers"][0]["env"])
    assert [each["name"] for each in pod["containers"][0]["ports"]] == ["webhook", "metrics"]
    assert "runAsGroup" not in pod["securityContext"]
    assert [each["name"] for each in (await running.stored(*SERVICE))["spec"]["ports"]] == ["webhook"]


async def test_former_services_and_network_policies_are_removed(running: Takeover) -> None:
    await running.watcher_is("WatcherStarting")
    assert await running.live("v1", "Service", "skr-webhook-metrics") is None
    policies = await running.skr.mapper.resource("networking.k8s.io/v1", "NetworkPolicy")
    found = (await running.skr.list(policies, names.SKR_NAMESPACE)).items
    assert [each["metadata"]["name"] for each in found] == ["skr-webhook"]


async def test_former_webhook_stays_until_ours_sends_an_event(running: Takeover, before: dict[str, JsonObject]) -> None:
    await running.watcher_is("WatcherStarting")
    assert (await running.stored(*WEBHOOK))["webhooks"] == before[WEBHOOK[1]]["webhooks"]


async def test_ca_is_adopted(running: Takeover) -> None:
    await running.watcher_is("WatcherStarting")
    issued = running.issued
    ours = await running.kcp.get(SECRETS, "klm-watcher", KCP)
    assert base64.b64decode(ours.data["tls.crt"]) == issued.ca.certificate_pem
    assert issued.former_ca.certificate_pem in base64.b64decode(ours.data["ca.crt"])
    secret = await running.stored(*SECRET)
    assert describe(base64.b64decode(secret["data"]["tls.crt"])).common_name == KYMA
    assert base64.b64decode(secret["data"]["ca.crt"]) == base64.b64decode(ours.data["ca.crt"])


async def test_unsigned_events_are_accepted_until_ours_sends_one(running: Takeover, tmp_path: Path) -> None:
    issued, leaf = running.issued, running.leaf
    stranger = issued.leaf("another-runtime")
    await running.watcher_is("WatcherStarting")

    assert await watchers.send_unsigned(running, tmp_path, leaf, issued.bundle) == 200
    assert await watchers.send_unsigned(running, tmp_path, stranger, issued.bundle) == 401
    reloaded = await watchers.mounted(running)  # by the former Watcher, before its Pod is replaced
    assert await watchers.send_unsigned(running, tmp_path, *reloaded) == 200
    await watchers.deliver_signed(running, tmp_path)

    await running.watcher_is("WatcherReady")
    assert await watchers.send_unsigned(running, tmp_path, leaf, issued.bundle) == 401


async def test_webhook_is_ours_once_ours_sends_an_event(running: Takeover, before: dict[str, JsonObject]) -> None:
    await running.watcher_is("WatcherReady")
    live = await running.stored(*WEBHOOK)
    assert (uid_of(live), managers_of(live)) == (uid_of(before[WEBHOOK[1]]), {OURS})
    assert f"{KCP}.removed.{names.GROUP}" not in [each["name"] for each in live["webhooks"]]
    assert {each["timeoutSeconds"] for each in live["webhooks"]} == {2}


async def test_watcher_cr_of_the_former_version_can_be_deleted(running: Takeover) -> None:
    await running.kcp.delete(WATCHERS, "klm-watcher", KCP)
    await eventually(lambda: is_gone(running.kcp.get(WATCHERS, "klm-watcher", KCP)), what="the Watcher CR is gone")


@pytest.mark.parametrize("name", ["klm-watcher", "klm-istio-gateway", f"{KYMA}-webhook-tls"])
async def test_secrets_of_the_former_version_stay_for_a_way_back(running: Takeover, name: str) -> None:
    assert await running.kcp.get(SECRETS, name, "istio-system")
