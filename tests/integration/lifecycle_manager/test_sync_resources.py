"""SyncResources as Module Managers in any language write them: objects are applied, refused, kept and released."""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import pytest_asyncio

from kube_runtime import Resource, dump_yaml
from kyma_demo.environment import Environment
from kyma_demo.object_watcher import CONFIG_MAPS
from kyma_demo.walkthrough import Walkthrough
from lifecycle_manager.contract.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    MODULE_POLICIES,
    NAMESPACES,
    SYNC_RESOURCES,
)
from lifecycle_manager_api import SyncResource, find, names
from lifecycle_manager_api.documents import plain
from tests.integration.lifecycle_manager.catalog_entries import refusal
from tests.kinds import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, EVENTS
from tests.modules import config_map
from tests.waiting import eventually, is_gone

KCP, SKR = names.KCP_NAMESPACE, names.SKR_NAMESPACE
COLOURS: Resource[dict[str, Any]] = Resource.dynamic("test.example.com", "v1", "Colour", "colours", namespaced=True)
COLOUR_CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "colours.test.example.com"},
    "spec": {
        "group": "test.example.com",
        "scope": "Namespaced",
        "names": {"kind": "Colour", "listKind": "ColourList", "plural": "colours", "singular": "colour"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            }
        ],
    },
}


ALLOWED = [
    {"kind": "ConfigMap"},
    {"kind": "Secret"},
    {"group": "networking.k8s.io", "kind": "NetworkPolicy"},
    {"group": "test.example.com", "kind": "Colour"},
    {"group": "apps", "kind": "DaemonSet"},
    {"group": "rbac.authorization.k8s.io", "kind": "RoleBinding"},
]
"""What the module may have in these tests; what is denied by default stays denied."""
ROLE_BINDING = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "RoleBinding",
    "metadata": {"name": "admin", "namespace": SKR},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
    "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": SKR}],
}
TOKEN = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {
        "name": "token",
        "namespace": SKR,
        "annotations": {"kubernetes.io/service-account.name": "skr-webhook"},
    },
    "type": "kubernetes.io/service-account-token",
}
SPY = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "metadata": {"name": "spy", "namespace": SKR},
    "spec": {
        "selector": {"matchLabels": {"app": "spy"}},
        "template": {
            "metadata": {"labels": {"app": "spy"}},
            "spec": {
                "containers": [{"name": "sh", "image": "sh", "securityContext": {"privileged": True}}],
                "volumes": [
                    {"name": "node", "hostPath": {"path": "/"}},
                    {"name": "tls", "secret": {"secretName": "skr-webhook-tls"}},
                ],
            },
        },
    },
}


async def set_policy(environment: Environment, allow: Iterable[dict[str, str]]) -> None:
    """Write the policy of the module as an operator does."""
    crds = ["infrastructures.cloud-resources.kyma-project.io", "colours.test.example.com"]
    spec = {
        "namespaces": [SKR, "asked-for", "not-asked-for"],
        "clusterResources": [
            {"group": "apiextensions.k8s.io", "kind": "CustomResourceDefinition", "names": crds},
            {"kind": "PersistentVolume", "names": ["kyma-system-*"]},
        ],
        "namespacedResources": {"allow": [{**each, "names": ["*"]} for each in allow]},
        "podSecurity": "baseline",
        "podLabels": ["*"],
    }
    document = {"metadata": {"name": "cloud-resources", "namespace": KCP}, "spec": spec}
    await environment.kcp.apply(MODULE_POLICIES, "cloud-resources", document, KCP, field_manager="test")


@pytest_asyncio.fixture(scope="module", loop_scope="session", autouse=True)
async def policy(walkthrough: Walkthrough) -> AsyncIterator[None]:
    """The policy of the module in these tests, then again the one that it ships."""
    environment = walkthrough.environment
    before = await environment.kcp.get(MODULE_POLICIES, "cloud-resources", KCP)
    await set_policy(environment, ALLOWED)
    yield
    document = {"metadata": {"name": "cloud-resources", "namespace": KCP}, "spec": plain(before.spec)}
    await environment.kcp.apply(MODULE_POLICIES, "cloud-resources", document, KCP, field_manager="test")


def text_of(*documents: dict[str, Any]) -> str:
    return "---\n".join(dump_yaml(document) for document in documents)


def document_of(name: str, text: str, **annotations: str) -> dict[str, Any]:
    return {
        "apiVersion": SYNC_RESOURCES.api_version,
        "kind": "SyncResource",
        "metadata": {"name": name, "namespace": KCP, "annotations": annotations},
        "spec": {"kyma": "demo", "module": "cloud-resources", "resource": text},
    }


async def write(environment: Environment, name: str, text: str, **annotations: str) -> None:
    document = document_of(name, text, **annotations)
    await environment.kcp.apply(SYNC_RESOURCES, name, document, KCP, field_manager="test")


@asynccontextmanager
async def written(environment: Environment, name: str, text: str, **annotations: str) -> AsyncIterator[None]:
    """Keep a SyncResource until the block ends, and wait until it is deleted."""
    await write(environment, name, text, **annotations)
    try:
        yield
    finally:
        await environment.kcp.delete(SYNC_RESOURCES, name, KCP)
        await eventually(lambda: is_gone(environment.kcp.get(SYNC_RESOURCES, name, KCP)), what=f"{name} is gone")


async def becomes(environment: Environment, name: str, wanted: Callable[[SyncResource], bool]) -> SyncResource:
    """Wait until the current generation of a SyncResource is reconciled and fulfils a check."""

    async def seen() -> SyncResource | None:
        resource: SyncResource = await environment.kcp.get(SYNC_RESOURCES, name, KCP)
        current = resource.status.observed_generation == resource.metadata.generation
        return resource if current and wanted(resource) else None

    return await eventually(seen, what=f"SyncResource {name}")


def is_ready(resource: SyncResource) -> bool:
    return resource.status.state == "Ready"


def is_false(kind: str, reason: str) -> Callable[[SyncResource], bool]:
    def check(resource: SyncResource) -> bool:
        condition = find(resource.status.conditions, kind)
        return condition is not None and condition.status == "False" and condition.reason == reason

    return check


async def test_objects_removed_from_the_text_stay_until_the_deletion_without_prune(environment: Environment) -> None:
    both = document_of("keep", text_of(config_map("one"), config_map("two")))
    both["spec"]["prune"] = False
    await environment.kcp.apply(SYNC_RESOURCES, "keep", both, KCP, field_manager="test")
    await becomes(environment, "keep", is_ready)
    less = document_of("keep", text_of(config_map("one")))
    less["spec"]["prune"] = False

    await environment.kcp.apply(SYNC_RESOURCES, "keep", less, KCP, field_manager="test")

    await becomes(environment, "keep", lambda it: it.metadata.generation == 2)
    assert await environment.skr.get(CONFIG_MAPS, "two", SKR)
    await environment.kcp.delete(SYNC_RESOURCES, "keep", KCP)
    await eventually(lambda: is_gone(environment.skr.get(CONFIG_MAPS, "two", SKR)))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (
            {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "x"}},
            "ClusterRole x: spec.clusterResources: ",
        ),
        (config_map("x", "kube-system"), "ConfigMap kube-system/x: spec.namespaces: "),
        (config_map("skr-webhook"), "belongs to the Lifecycle Manager"),
        (ROLE_BINDING, "RoleBinding kyma-system/admin: spec.namespacedResources.deny: "),
        (TOKEN, "Secret kyma-system/token: spec.serviceAccounts: it is a token of ServiceAccount 'skr-webhook'"),
        (SPY, "DaemonSet kyma-system/spy: spec.secrets: it uses Secret skr-webhook-tls"),
        (SPY, "DaemonSet kyma-system/spy: spec.podSecurity baseline: Privileged Containers: container sh"),
        (SPY, "DaemonSet kyma-system/spy: spec.podSecurity baseline: HostPath Volumes: volume node"),
    ],
)
async def test_forbidden_objects_are_refused_by_the_webhook(
    environment: Environment, bad: dict[str, Any], message: str
) -> None:
    refused = await refusal(
        lambda: write(environment, "greedy", text_of(config_map("harmless"), bad)),
        lambda: environment.kcp.delete(SYNC_RESOURCES, "greedy", KCP),
    )

    assert "document 1" in refused
    assert message in refused


async def test_namespace_is_created_on_request_and_stays(environment: Environment) -> None:
    async with written(environment, "nowhere", text_of(config_map("a", "not-asked-for"))):
        await becomes(environment, "nowhere", is_false("Applied", "ApplyFailed"))
    asked = {names.CREATE_NAMESPACES: "true"}

    async with written(environment, "somewhere", text_of(config_map("a", "asked-for")), **asked):
        resource = await becomes(environment, "somewhere", is_ready)
        assert [entry.kind for entry in resource.status.synced] == ["ConfigMap"]

    assert await environment.skr.get(NAMESPACES, "asked-for")
    assert await is_gone(environment.skr.get(CONFIG_MAPS, "a", "asked-for"))


async def test_crd_and_its_object_are_applied_from_one_text(environment: Environment) -> None:
    colour = {"apiVersion": "test.example.com/v1", "kind": "Colour", "metadata": {"name": "red", "namespace": SKR}}
    async with rights(environment, "colours", ["test.example.com"], ["colours"]):
        async with written(environment, "colourful", text_of(colour, COLOUR_CRD)):
            resource = await becomes(environment, "colourful", is_ready)
            assert resource.status.objects == "2/2"
            assert await environment.skr.get(COLOURS, "red", SKR)
        assert await is_gone(environment.skr.get(CUSTOM_RESOURCE_DEFINITIONS, "colours.test.example.com"))


async def test_refusal_by_the_api_server_is_reported_with_its_message(environment: Environment) -> None:
    async with written(
        environment, "no-right", text_of(config_map("fine"), {**config_map("secret"), "kind": "Secret"})
    ):
        resource = await becomes(environment, "no-right", is_false("Applied", "ApplyFailed"))

        applied = find(resource.status.conditions, "Applied")
        assert applied is not None
        assert applied.message.startswith("document 1: Secret kyma-system/secret: ")
        assert "forbidden" in applied.message
        states = {entry.name: entry.state for entry in resource.status.synced}
        assert states["fine"] == "Ready"


async def test_changed_object_is_corrected_at_the_next_interval(environment: Environment) -> None:
    async with written(environment, "drift", text_of(config_map("drifting", a="1"))):
        await becomes(environment, "drift", is_ready)
        await environment.skr.merge_patch(CONFIG_MAPS, "drifting", {"data": {"a": "2"}}, SKR, field_manager="somebody")

        async def corrected() -> bool:
            drifting = await environment.skr.get(CONFIG_MAPS, "drifting", SKR)
            return bool(drifting["data"] == {"a": "1"})

        await eventually(corrected)


@asynccontextmanager
async def rights(environment: Environment, name: str, groups: list[str], resources: list[str]) -> AsyncIterator[None]:
    """Grant the Lifecycle Manager the rights for a module's kinds in an SKR, as the module's role does."""
    role_name = f"lifecycle-manager-{name}"
    verbs = ["get", "list", "watch", "create", "patch", "delete"]
    crds = {
        "apiGroups": ["apiextensions.k8s.io"],
        "resources": ["customresourcedefinitions"],
        "verbs": ["get", "delete"],
    }
    role = {
        "metadata": {"name": role_name},
        "rules": [{"apiGroups": groups, "resources": resources, "verbs": verbs}, crds],
    }
    binding = {
        "metadata": {"name": role_name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role_name},
        "subjects": [{"kind": "ServiceAccount", "name": "lifecycle-manager", "namespace": "kube-system"}],
    }
    await environment.skr.create(CLUSTER_ROLES, role, field_manager="test")
    await environment.skr.create(CLUSTER_ROLE_BINDINGS, binding, field_manager="test")
    try:
        yield
    finally:
        await environment.skr.delete(CLUSTER_ROLE_BINDINGS, role_name)
        await environment.skr.delete(CLUSTER_ROLES, role_name)


async def test_result_of_a_sync_resource_is_reported_by_events(environment: Environment) -> None:
    async with written(environment, "reported", text_of(config_map("reported"))):
        await becomes(environment, "reported", is_ready)
        await write(environment, "reported", text_of({**config_map("reported"), "kind": "Secret"}))
        await becomes(environment, "reported", is_false("Applied", "ApplyFailed"))
        await write(environment, "reported", text_of(config_map("reported")))
        await becomes(environment, "reported", is_ready)

        async def both() -> dict[str, str] | None:
            events = (await environment.kcp.list(EVENTS, KCP, field_selector="regarding.name=reported")).items
            types = {event["reason"]: event["type"] for event in events}
            return types if {"ObjectsReady", "ApplyFailed"} <= types.keys() else None

        types = await eventually(both)
        assert (types["ObjectsReady"], types["ApplyFailed"]) == ("Normal", "Warning")
