"""The deletion of a Kyma leaves no objects behind, neither in the control plane nor in the user's cluster."""

from collections.abc import Awaitable, Callable
from typing import Any

from kube_runtime import Client, Resource
from kyma_demo.user import INFRASTRUCTURES
from kyma_demo.walkthrough import Walkthrough
from lifecycle_manager.contract.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    KYMAS,
    MODULE_CONFIGS,
    SECRETS,
    SYNC_RESOURCES,
)
from lifecycle_manager_api import names
from tests.waiting import eventually

KCP, SKR = names.KCP_NAMESPACE, names.SKR_NAMESPACE
OURS = f"{names.MANAGED_BY}={names.LIFECYCLE_MANAGER}"
KINDS = (
    ("v1", "ConfigMap"),
    ("v1", "Service"),
    ("v1", "ServiceAccount"),
    ("v1", "Secret"),
    ("v1", "PersistentVolume"),
    ("apps/v1", "Deployment"),
    ("networking.k8s.io/v1", "NetworkPolicy"),
    ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"),
)


async def test_deleted_kyma_leaves_nothing_behind(walkthrough: Walkthrough) -> None:
    environment = walkthrough.environment
    await walkthrough.change_volume("100Gi")
    assert await _ours_in(environment.skr)

    await environment.kcp.delete(KYMAS, "demo", KCP)

    await eventually(_empty(environment.kcp, KYMAS))
    assert not (await environment.kcp.list(MODULE_CONFIGS, KCP)).items
    assert not (await environment.kcp.list(SYNC_RESOURCES, KCP)).items
    assert await _ours_in(environment.skr) == []
    await eventually(lambda: _no_certificates(environment.kcp))  # the garbage collector takes some time, too
    await eventually(_no_crds(environment.skr))  # their deletion takes the API server some time
    users = await environment.skr.get(INFRASTRUCTURES, "default", SKR)
    assert users["spec"]["nfsVolumes"][0]["capacity"] == "100Gi"  # the user's object stays as it is


def _empty(client: Client, resource: Resource[Any]) -> Callable[[], Awaitable[bool]]:
    async def empty() -> bool:
        return not (await client.list(resource)).items

    return empty


def _no_crds(client: Client) -> Callable[[], Awaitable[bool]]:
    async def gone() -> bool:
        crds = await client.list(CUSTOM_RESOURCE_DEFINITIONS)
        return not [each for each in crds.items if each["spec"]["group"] == names.GROUP]

    return gone


async def _no_certificates(kcp: Client) -> bool:
    """Return whether only the access Secret, which Lifecycle Manager did not create, remains."""
    remaining = (await kcp.list(SECRETS, KCP, label_selector=f"{names.KYMA_NAME}=demo")).items
    return [each.metadata.name for each in remaining] == ["kubeconfig-demo"]


async def _ours_in(skr: Client) -> list[str]:
    """Return the objects of Lifecycle Manager in a cluster."""
    found = []
    for api_version, kind in KINDS:
        resource = await skr.mapper.resource(api_version, kind)
        listed = await skr.list(resource, label_selector=OURS)
        found += [f"{kind} {item['metadata']['name']}" for item in listed.items]
    return found
