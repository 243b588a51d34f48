"""KEDA's real CRD and a user's configuration of it, with a manager of our SDK: from the Module CR to its status."""

import lzma
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from kube_runtime import NotServed, Resource, load_documents
from kyma_demo.environment import Environment
from kyma_demo.walkthrough import Walkthrough
from kyma_fleet.identities import create_identity
from kyma_local.private_files import write_private
from kyma_module_manager.rights import lease_namespace_of, roles_of
from lifecycle_manager.contract.resources import MODULE_POLICIES, NAMESPACES
from lifecycle_manager_api import names
from tests.integration.lifecycle_manager import keda_manager
from tests.integration.lifecycle_manager.catalog_entries import in_catalog, release, template
from tests.integration.lifecycle_manager.test_manifests_of_modules import CLOUD_RESOURCES, gone, template_with
from tests.kinds import DEPLOYMENTS
from tests.registries import BlobServer
from tests.waiting import eventually

FOLDER = Path(os.environ.get("KLM_REAL_MANIFESTS", "../shared/real-manifests"))
MANIFEST = FOLDER / "keda-v2.yaml.xz"
pytestmark = pytest.mark.skipif(not MANIFEST.exists(), reason=f"no {MANIFEST}; set KLM_REAL_MANIFESTS to its folder")
KCP, SKR = names.KCP_NAMESPACE, names.SKR_NAMESPACE
KEDAS: Resource[dict[str, Any]] = Resource.dynamic(
    "operator.kyma-project.io", "v1alpha1", "Keda", "kedas", namespaced=True
)
KEDA = {"apiVersion": KEDAS.api_version, "kind": "Keda", "metadata": {"name": "default", "namespace": SKR}}
POLICY = {
    "metadata": {"name": "keda", "namespace": KCP},
    "spec": {
        "namespaces": [SKR],
        "clusterResources": [
            {
                "group": "apiextensions.k8s.io",
                "kind": "CustomResourceDefinition",
                "names": ["kedas.operator.kyma-project.io"],
            }
        ],
        "namespacedResources": {
            "allow": [
                {"group": "apps", "kind": "Deployment", "names": ["keda-*"]},
                {"kind": "ConfigMap", "names": ["keda"]},
            ]
        },
        "moduleCrKinds": [{"group": "operator.kyma-project.io", "kind": "Keda"}],
        "podSecurity": "restricted",
    },
}


def crd() -> dict[str, Any]:
    with lzma.open(MANIFEST, "rb") as file:
        documents = list(load_documents(file.read()))
    (found,) = (each for each in documents if each["kind"] == "CustomResourceDefinition")
    return dict(found)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def keda(walkthrough: Walkthrough, layers: BlobServer) -> AsyncIterator[Environment]:
    """The module is enabled, its CRD installed, and its manager runs with the rights that the SDK has for it."""
    environment, programs = walkthrough.environment, walkthrough.programs
    leases = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": lease_namespace_of("keda")}}
    await environment.kcp.apply(NAMESPACES, lease_namespace_of("keda"), leases, field_manager="test")
    kubeconfig = await create_identity(
        environment.kcp, environment.kcp_kubeconfig, name="keda-manager", namespace=KCP, roles=roles_of("keda", KCP)
    )
    file = write_private(environment.directory / "keda-manager.kubeconfig", kubeconfig)
    started = programs.started["module-manager"]
    script, *_ = started.command
    target = f"{keda_manager.__name__}:objects"
    options = (f"--kubeconfig={file}", "--health-address=127.0.0.1:0")
    root = str(Path(__file__).parents[3])
    program = replace(
        started,
        name="keda-manager",
        command=(script, "run", target, *options),
        environment={**started.environment, "PYTHONPATH": root},
    )
    data = {**KEDA, "spec": {}}
    offered = template_with(layers, template("keda", "1.12.1", data=data, enable_module_config=True), [crd()])
    await environment.kcp.apply(MODULE_POLICIES, "keda", POLICY, KCP, field_manager="test")
    async with in_catalog(environment.kcp, offered, release("keda", regular="1.12.1")):
        await programs.start(program)
        await walkthrough.set_modules([CLOUD_RESOURCES, {"name": "keda", "managed": True}])
        yield environment
        await walkthrough.set_modules([CLOUD_RESOURCES])
        await eventually(gone(environment, "keda"))
        await programs.running["keda-manager"].stop()
    await environment.kcp.delete(MODULE_POLICIES, "keda", KCP)


async def answered(environment: Environment, state: str) -> dict[str, Any]:
    """Return the status of the Module CR once it is about the newest version, and has this state."""

    async def status() -> dict[str, Any] | None:
        found = await environment.skr.get(KEDAS, "default", SKR)
        shown: dict[str, Any] = found.get("status", {})
        ready = [each for each in shown.get("conditions", ()) if each["type"] == "Ready"]
        is_current = bool(ready) and ready[0].get("observedGeneration") == found["metadata"]["generation"]
        return shown if is_current and shown["state"] == state else None

    return await eventually(status, what=f"the status of the Keda is {state}")


async def test_users_configuration_comes_into_force_and_is_answered_in_the_real_status(keda: Environment) -> None:
    spec: dict[str, Any] = {
        "logging": {"operator": {"level": "debug", "format": "json"}},
        "resources": {"operator": {"limits": {"cpu": "800m", "memory": "1Gi"}, "requests": {"cpu": "150m"}}},
        "podAnnotations": {"operator": {"metrics.dynatrace.com/scrape": "true"}},
        "env": [{"name": "KEDA_HTTP_DEFAULT_TIMEOUT", "value": "5000"}],
    }

    async def configured() -> bool:
        try:
            await keda.skr.apply(KEDAS, "default", {**KEDA, "spec": spec}, SKR, field_manager="user", force=True)
        except NotServed:
            return False
        return True

    await eventually(configured, what="the CRD is served")

    async def in_force() -> dict[str, Any] | None:
        found = (await keda.skr.list(DEPLOYMENTS, SKR)).items
        templates = [each["spec"]["template"] for each in found if each["metadata"]["name"] == "keda-operator"]
        applied = [each for each in templates if "--zap-log-level=debug" in each["spec"]["containers"][0]["args"]]
        return applied[0] if applied else None

    applied: Any = await eventually(in_force, what="the operator has the user's configuration")
    (container,) = applied["spec"]["containers"]
    assert container["env"] == spec["env"]
    assert container["resources"] == spec["resources"]["operator"]
    assert applied["metadata"]["annotations"] == spec["podAnnotations"]["operator"]
    status = await answered(keda, "Processing")
    assert (status["served"], status["kedaVersion"]) == ("True", "2.17.2")


async def test_mistake_of_the_user_is_answered_in_the_real_status(keda: Environment) -> None:
    mistaken = {**KEDA, "spec": {"env": [{"name": "", "value": "1"}]}}
    await keda.skr.apply(KEDAS, "default", mistaken, SKR, field_manager="user", force=True)
    status = await answered(keda, "Error")
    (ready,) = (each for each in status["conditions"] if each["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "VariableWithoutName")
