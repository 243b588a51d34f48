"""A module with an operator, from a registry that asks for a login: its Pod runs, is upgraded, and goes with it."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest_asyncio

from kube_runtime import dump_yaml
from kyma_demo import names as demo_names
from lifecycle_manager.contract.resources import CUSTOM_RESOURCE_DEFINITIONS, MANIFESTS
from lifecycle_manager.process.crd_installation import apply_objects
from lifecycle_manager_api import Manifest, State, names
from tests.integration.lifecycle_manager.catalog_entries import put_in_catalog, release, template
from tests.kinds import crd_of
from tests.modules import ANY_MODULE
from tests.nodes.clusters import NodeClusters, is_ready, pods_of
from tests.nodes.registry import PrivateRegistry, private_registry
from tests.waiting import eventually, is_gone

MODULE, OPERATOR, GROUP = "keda", "keda-manager", "operator.kyma-project.io"
OLD, NEW, BROKEN, FIXED = "1.0.0", "1.1.0", "1.2.0", "1.3.0"
SECONDS = 90.0
SKR = names.SKR_NAMESPACE


@pytest_asyncio.fixture(loop_scope="session")
async def registry(world: NodeClusters, tmp_path: Path) -> AsyncIterator[PrivateRegistry]:
    async with private_registry(world, tmp_path) as running:
        yield running


async def test_module_from_a_private_registry_comes_is_upgraded_and_goes(
    world: NodeClusters, registry: PrivateRegistry
) -> None:
    await apply_objects(world.skr, ANY_MODULE)
    image = (await pods_of(world.skr, SKR, "skr-webhook"))[0]["spec"]["containers"][0]["image"]
    images = {OLD: image, NEW: image, BROKEN: "localhost/keda-manager:missing", FIXED: image}
    entries = {version: await _entry(registry, version, each) for version, each in images.items()}
    for entry in entries.values():
        await put_in_catalog(world.kcp, entry)
    await put_in_catalog(world.kcp, release(MODULE, regular=OLD))
    await world.walkthrough.set_modules([{"name": demo_names.MODULE, "managed": True}, {"name": MODULE}])
    refused = await _manifest(world, State.ERROR, OLD)
    assert "credentials" in _messages(refused)

    for entry in entries.values():
        await registry.put_with_login(world, entry)
    for version in (OLD, NEW):
        await put_in_catalog(world.kcp, release(MODULE, regular=version))
        await _manifest(world, State.READY, version)
        await _running(world, version)

    await put_in_catalog(world.kcp, release(MODULE, regular=BROKEN))
    broken = await _manifest(world, State.ERROR, BROKEN)
    assert images[BROKEN] in _messages(broken)
    await _running(world, NEW)
    await put_in_catalog(world.kcp, release(MODULE, regular=FIXED))
    await _manifest(world, State.READY, FIXED)
    await _running(world, FIXED)

    await _removed(world)


async def _removed(world: NodeClusters) -> None:
    """Remove the module, and wait until nothing of it is left."""
    await world.walkthrough.set_modules([{"name": demo_names.MODULE, "managed": True}])

    async def gone() -> bool:
        crd_is_gone = await is_gone(world.skr.get(CUSTOM_RESOURCE_DEFINITIONS, f"kedas.{GROUP}"))
        return crd_is_gone and not await pods_of(world.skr, SKR, OPERATOR)

    await eventually(gone, what="the end of the module", within=SECONDS)


async def _entry(registry: PrivateRegistry, version: str, image: str) -> dict[str, Any]:
    return await registry.filled(
        template(MODULE, version, data=None), "---\n".join(map(dump_yaml, _objects(version, image)))
    )


async def _manifest(world: NodeClusters, state: State, version: str) -> Manifest:
    """Wait until the Manifest of a version has a state."""

    async def reached() -> Manifest | None:
        selector = f"{names.MODULE_NAME}={MODULE}"
        found = (await world.kcp.list(MANIFESTS, names.KCP_NAMESPACE, label_selector=selector)).items
        return next((each for each in found if (each.status.state, each.spec.version) == (state, version)), None)

    return await eventually(reached, what=f"{MODULE} {version} is {state}", within=SECONDS)


def _messages(manifest: Manifest) -> str:
    return " ".join(each.message for each in manifest.status.conditions)


async def _running(world: NodeClusters, version: str) -> None:
    """Wait until the Pod of a version runs, and of no other one."""

    async def reached() -> bool:
        ready = [pod for pod in await pods_of(world.skr, SKR, OPERATOR) if is_ready(pod)]
        return [pod["spec"]["containers"][0]["env"][0]["value"] for pod in ready] == [version]

    await eventually(reached, what=f"the Pod of {MODULE} {version}", within=SECONDS)


def _objects(version: str, image: str) -> list[dict[str, Any]]:
    """Return an operator with its kind and its rights, as keda-manager's: with the image of a program that we have."""
    labels = {"app.kubernetes.io/name": OPERATOR}
    rights = {"apiGroup": "rbac.authorization.k8s.io"}
    container = {
        "name": "manager",
        "image": image,
        "imagePullPolicy": "Never",
        "command": ["python3", "-m", "http.server", "8081"],
        "env": [{"name": "VERSION", "value": version}],
        "workingDir": "/opt/kyma",
        "ports": [{"name": "health", "containerPort": 8081}],
        "readinessProbe": {"httpGet": {"path": "/", "port": "health"}, "periodSeconds": 1},
        "resources": {"limits": {"cpu": "100m", "memory": "64Mi"}, "requests": {"cpu": "10m", "memory": "32Mi"}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    pod = {
        "serviceAccountName": OPERATOR,
        "terminationGracePeriodSeconds": 0,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
    }
    own = {"apiGroups": [GROUP], "resources": ["kedas", "kedas/status"], "verbs": ["*"]}
    return [
        crd_of(GROUP, "Keda", stored="v1alpha1", has_status=True),
        _object("v1", "ServiceAccount", OPERATOR),
        _object("rbac.authorization.k8s.io/v1", "ClusterRole", OPERATOR, namespace=None, rules=[own]),
        _object(
            "rbac.authorization.k8s.io/v1",
            "ClusterRoleBinding",
            OPERATOR,
            namespace=None,
            roleRef={**rights, "kind": "ClusterRole", "name": OPERATOR},
            subjects=[{"kind": "ServiceAccount", "name": OPERATOR, "namespace": SKR}],
        ),
        _object("v1", "Service", f"{OPERATOR}-metrics", spec={"selector": labels, "ports": [{"port": 8081}]}),
        _object(
            "apps/v1",
            "Deployment",
            OPERATOR,
            spec={
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        ),
    ]


def _object(api: str, kind: str, name: str, *, namespace: str | None = SKR, **content: Any) -> dict[str, Any]:
    metadata = {"name": name} if namespace is None else {"name": name, "namespace": namespace}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **content}
