"""Invalid input is reported by a condition or an answer, and affects no other resource."""

import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx
import msgspec
import pytest

from kube_runtime import dump_yaml
from kyma_demo.environment import Environment, infrastructure
from kyma_demo.user import INFRASTRUCTURES
from kyma_demo.walkthrough import Walkthrough
from lifecycle_manager.contract.resources import KYMAS, MODULE_CONFIGS, SECRETS, SYNC_RESOURCES
from lifecycle_manager_api import Kyma, SyncResource, find, names
from tests.integration.lifecycle_manager.catalog_entries import refusal
from tests.integration.lifecycle_manager.kymas import remove_kyma
from tests.integration.lifecycle_manager.programs import MANAGER, without
from tests.waiting import eventually, is_gone

NAMESPACE = names.KCP_NAMESPACE
UNREACHABLE = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "gone",
    "contexts": [{"name": "gone", "context": {"cluster": "gone", "user": "gone"}}],
    "clusters": [{"name": "gone", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [{"name": "gone", "user": {"token": "not-a-secret"}}],
}


@asynccontextmanager
async def kyma(environment: Environment, name: str) -> AsyncIterator[None]:
    """Have a Kyma until the block ends."""
    document = {
        "apiVersion": KYMAS.api_version,
        "kind": "Kyma",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"channel": "regular"},
    }
    await environment.kcp.create(KYMAS, document, NAMESPACE, field_manager="test")
    try:
        yield
    finally:
        await remove_kyma(environment, name)


@asynccontextmanager
async def stored(environment: Environment, document: dict[str, Any]) -> AsyncIterator[None]:
    """Have a SyncResource until the block ends."""
    await environment.kcp.create(SYNC_RESOURCES, document, NAMESPACE, field_manager="test")
    try:
        yield
    finally:
        await environment.kcp.delete(SYNC_RESOURCES, document["metadata"]["name"], NAMESPACE)


async def create_access_secret(environment: Environment, kyma: str, data: dict[str, str]) -> None:
    document = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": f"kubeconfig-{kyma}",
            "namespace": NAMESPACE,
            "labels": {names.KYMA_NAME: kyma, names.MANAGED_BY: names.LIFECYCLE_MANAGER},
        },
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in data.items()},
    }
    await environment.kcp.create(SECRETS, document, NAMESPACE, field_manager="test")


def sync_resource(name: str, text: str) -> dict[str, Any]:
    return {
        "apiVersion": SYNC_RESOURCES.api_version,
        "kind": "SyncResource",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"kyma": "demo", "module": "cloud-resources", "resource": text},
    }


async def reachable_condition(environment: Environment, name: str, reason: str) -> str:
    async def message() -> str | None:
        kyma: Kyma = await environment.kcp.get(KYMAS, name, NAMESPACE)
        condition = find(kyma.status.conditions, "SKRReachable")
        return condition.message if condition and condition.status == "False" and condition.reason == reason else None

    return await eventually(message, what=f"condition {reason} on Kyma {name}")


async def test_kyma_without_access_secret_reports_it(environment: Environment) -> None:
    async with kyma(environment, "no-secret"):
        message = await reachable_condition(environment, "no-secret", "AccessSecretMissing")
    assert names.KYMA_NAME in message


async def test_access_secret_without_kubeconfig_is_named(environment: Environment) -> None:
    async with kyma(environment, "no-config"):
        await create_access_secret(environment, "no-config", {"kubeconfig": "wrong key"})
        message = await reachable_condition(environment, "no-config", "AccessSecretIncomplete")
    assert "kubeconfig-no-config" in message


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("exec", {"users": [{"name": "gone", "user": {"exec": {"command": "/bin/true", "apiVersion": "v1"}}}]}),
        ("file", {"users": [{"name": "gone", "user": {"tokenFile": "/etc/passwd"}}]}),
        (
            "insecure",
            {
                "clusters": [
                    {"name": "gone", "cluster": {"server": "https://127.0.0.1:1", "insecure-skip-tls-verify": True}}
                ]
            },
        ),
    ],
)
async def test_dangerous_kubeconfig_is_refused(environment: Environment, name: str, change: dict[str, Any]) -> None:
    async with kyma(environment, name):
        await create_access_secret(environment, name, {"config": dump_yaml({**UNREACHABLE, **change})})
        message = await reachable_condition(environment, name, "AccessSecretUnusable")
    assert "not-a-secret" not in message


async def test_unreachable_cluster_does_not_affect_others(walkthrough: Walkthrough) -> None:
    environment = walkthrough.environment
    async with kyma(environment, "gone"):
        await create_access_secret(environment, "gone", {"config": dump_yaml(UNREACHABLE)})
        message = await reachable_condition(environment, "gone", "ClusterUnreachable")
        assert "not-a-secret" not in message
        await walkthrough.change_volume("333Gi")


async def test_rotated_credentials_are_used_and_a_claimed_cluster_is_not_changed(
    walkthrough: Walkthrough,
) -> None:
    """The new credentials are for the cluster of another Kyma, which is found only by using them."""
    environment = walkthrough.environment
    async with kyma(environment, "rotated"):
        await create_access_secret(environment, "rotated", {"config": dump_yaml(UNREACHABLE)})
        await reachable_condition(environment, "rotated", "ClusterUnreachable")
        data = {"config": base64.b64encode(walkthrough.programs.skr_access.encode()).decode()}
        patch = {"data": data}
        await environment.kcp.merge_patch(SECRETS, "kubeconfig-rotated", patch, NAMESPACE, field_manager="test")
        assert "Kyma demo" in await reachable_condition(environment, "rotated", "SKRClaimed")
        await walkthrough.change_volume("334Gi")
        await environment.kcp.delete(KYMAS, "rotated", NAMESPACE)  # with access to the cluster of the other one
        await eventually(lambda: is_gone(environment.kcp.get(KYMAS, "rotated", NAMESPACE)))
    owner = (await environment.skr.get(KYMAS, "default", "kyma-system")).metadata.annotations[names.OWNED_BY]
    assert owner == f"{NAMESPACE}/demo"
    await walkthrough.change_volume("335Gi")


async def test_module_cr_deleted_before_its_event_is_processed_leaves_nothing(walkthrough: Walkthrough) -> None:
    """It is created and deleted at once, so it may not exist any more when it is read."""
    environment = walkthrough.environment
    for number in range(5):
        name = f"brief-{number}"
        await environment.skr.create(INFRASTRUCTURES, infrastructure(name, {}, {}), "kyma-system", field_manager="test")
        await environment.skr.delete(INFRASTRUCTURES, name, "kyma-system")

    async def no_config() -> bool:
        configs = await environment.kcp.list(MODULE_CONFIGS, NAMESPACE)
        return not any(
            config.spec.resource_ref and config.spec.resource_ref.name.startswith("brief-") for config in configs.items
        )

    await walkthrough.change_volume("444Gi")  # later than the deletions in the same queue
    await eventually(no_config)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("no-yaml", "kind: [", "document 0"),
        ("no-object", "just text", "document 0"),
        ("second-bad", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: fine}\n---\nkind: Broken", "document 1"),
    ],
)
async def test_invalid_text_is_refused_by_the_webhook(
    environment: Environment, name: str, text: str, message: str
) -> None:
    refused = await refusal(
        lambda: environment.kcp.create(SYNC_RESOURCES, sync_resource(name, text), NAMESPACE, field_manager="test"),
        lambda: environment.kcp.delete(SYNC_RESOURCES, name, NAMESPACE),
    )

    assert f"spec.resource: {message}" in refused


async def test_invalid_text_stored_without_the_webhook_is_refused_by_the_reconcile(walkthrough: Walkthrough) -> None:
    """It is written while the Lifecycle Manager, and so its webhook, is stopped."""
    environment = walkthrough.environment

    async def refusal() -> str | None:
        resource: SyncResource = await environment.kcp.get(SYNC_RESOURCES, "bad", NAMESPACE)
        valid = find(resource.status.conditions, "Valid")
        return valid.message if valid and valid.status == "False" and resource.status.state == "Error" else None

    async with AsyncExitStack() as stack:
        async with without(walkthrough.programs, MANAGER):
            await stack.enter_async_context(stored(environment, sync_resource("bad", "kind: [")))
        assert "document 0" in await eventually(refusal)


async def test_object_that_the_cluster_refuses_is_named_and_the_others_are_applied(walkthrough: Walkthrough) -> None:
    """With an object of an unknown kind, valid objects are applied, nothing is pruned, and the invalid one is named."""
    environment = walkthrough.environment
    good, bad = ({"name": name, "namespace": "kyma-system"} for name in ("test-nfs-good", "test-vpc-bad"))
    peering = {"cloud-resources.kyma-project.io/vpc-peering": "test"}
    texts = (
        dump_yaml({"apiVersion": "v1", "kind": "ConfigMap", "metadata": good}),
        dump_yaml(
            {
                "apiVersion": "networking.k8s.io/v9",
                "kind": "NetworkPolicy",
                "metadata": bad,
                "spec": {"podSelector": {"matchLabels": peering}},
            }
        ),
    )
    document = sync_resource("half", "---\n".join(texts))

    async def failure() -> str | None:
        resource: SyncResource = await environment.kcp.get(SYNC_RESOURCES, "half", NAMESPACE)
        applied = find(resource.status.conditions, "Applied")
        return applied.message if applied and applied.status == "False" else None

    async with stored(environment, document):
        message = await eventually(failure)
        assert "document 1" in message
        assert "NetworkPolicy" in message
        assert msgspec.to_builtins((await environment.kcp.get(SYNC_RESOURCES, "half", NAMESPACE)).status.synced)


async def test_event_with_an_invalid_signature_is_refused(walkthrough: Walkthrough) -> None:
    """Even with the Watcher's certificate, over mutual TLS."""
    mount = walkthrough.environment.directory / "skr-webhook-tls"
    tls = ssl.create_default_context(cafile=str(mount / "ca.crt"))
    tls.load_cert_chain(mount / "tls.crt", mount / "tls.key")
    body = b'{"watched": {"Namespace": "kyma-system", "Name": "default"}}'
    forged = {
        "Content-Type": "application/json",
        "Content-Digest": "sha-256=:AAAA:",
        "Signature-Input": "kyma=()",
        "Signature": "kyma=:AAAA:",
    }
    url = f"https://127.0.0.1:{walkthrough.programs.event_port}/v2/lifecycle-manager/event"
    async with httpx.AsyncClient(verify=tls, trust_env=False, timeout=60) as client:
        for headers in ({"Content-Type": "application/json"}, forged):
            answer = await client.post(url, content=body, headers=headers)
            assert answer.status_code == 401
            assert answer.headers["content-type"] == "application/problem+json"
    await walkthrough.change_volume("777Gi")


async def test_sender_without_a_certificate_cannot_connect(walkthrough: Walkthrough) -> None:
    mount = walkthrough.environment.directory / "skr-webhook-tls"
    tls = ssl.create_default_context(cafile=str(mount / "ca.crt"))
    url = f"https://127.0.0.1:{walkthrough.programs.event_port}/v2/lifecycle-manager/event"
    async with httpx.AsyncClient(verify=tls, trust_env=False) as client:
        with pytest.raises(httpx.TransportError):
            await client.post(url, content=b"{}")
