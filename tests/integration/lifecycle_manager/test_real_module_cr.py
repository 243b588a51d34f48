"""Real CRDs and users' configurations of them, with managers of our SDK: from the Module CR to its status."""

import lzma
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
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
from tests.integration.lifecycle_manager import keda_manager, telemetry_manager
from tests.integration.lifecycle_manager.catalog_entries import in_catalog, release, template
from tests.integration.lifecycle_manager.test_manifests_of_modules import CLOUD_RESOURCES, gone, template_with
from tests.kinds import CONFIG_MAPS, DEPLOYMENTS, KEDAS, TELEMETRIES
from tests.registries import BlobServer
from tests.waiting import eventually

FOLDER = Path(os.environ.get("KLM_REAL_MANIFESTS", "../shared/real-manifests"))
KCP, SKR = names.KCP_NAMESPACE, names.SKR_NAMESPACE
GROUP = "operator.kyma-project.io"
TRACE_PIPELINES: Resource[dict[str, Any]] = Resource.dynamic(
    "telemetry.kyma-project.io", "v1beta1", "TracePipeline", "tracepipelines", namespaced=False
)


@dataclass(frozen=True)
class RealModule:
    """A module, its Module CR, and what its manager may bring."""

    name: str
    version: str
    manager: ModuleType
    module_crs: Resource[dict[str, Any]]
    brings: tuple[dict[str, Any], ...]
    further: tuple[Resource[dict[str, Any]], ...] = ()
    """Other kinds of the module, of which its manager brings cluster-wide objects."""

    @property
    def file(self) -> Path:
        return FOLDER / f"{self.name}-v2.yaml.xz"

    @property
    def module_cr(self) -> dict[str, Any]:
        kind = {"apiVersion": self.module_crs.api_version, "kind": self.module_crs.kind}
        return {**kind, "metadata": {"name": "default", "namespace": SKR}}

    @property
    def policy(self) -> dict[str, Any]:
        crd = {"group": "apiextensions.k8s.io", "kind": "CustomResourceDefinition", "names": [*self.crd_names]}
        brought = [{"group": each.group, "kind": each.kind, "names": ["*"]} for each in self.further]
        return {
            "metadata": {"name": self.name, "namespace": KCP},
            "spec": {
                "namespaces": [SKR],
                "clusterResources": [crd, *brought],
                "namespacedResources": {"allow": [*self.brings]},
                "moduleCrKinds": [{"group": GROUP, "kind": self.module_crs.kind}],
                "podSecurity": "restricted",
            },
        }

    @property
    def crd_names(self) -> tuple[str, ...]:
        return tuple(each.plural_name for each in (self.module_crs, *self.further))

    def crds(self) -> list[dict[str, Any]]:
        documents = load_documents(lzma.decompress(self.file.read_bytes()))
        return [dict(each) for each in documents if each["metadata"]["name"] in self.crd_names]


KEDA = RealModule(
    "keda",
    "1.12.1",
    keda_manager,
    KEDAS,
    ({"group": "apps", "kind": "Deployment", "names": ["keda-*"]}, {"kind": "ConfigMap", "names": ["keda"]}),
)
TELEMETRY = RealModule(
    "telemetry",
    "1.60.0",
    telemetry_manager,
    TELEMETRIES,
    ({"kind": "ConfigMap", "names": ["telemetry", "telemetry-gateway"]},),
    (TRACE_PIPELINES,),
)
pytestmark = pytest.mark.skipif(
    not (KEDA.file.exists() and TELEMETRY.file.exists()),
    reason=f"no {KEDA.file} and {TELEMETRY.file}; set KLM_REAL_MANIFESTS to their folder",
)


@asynccontextmanager
async def enabled(real: RealModule, walkthrough: Walkthrough, layers: BlobServer) -> AsyncIterator[Environment]:
    """Enable a module with its CRD, while its manager runs with the rights that the SDK has for it."""
    environment, programs = walkthrough.environment, walkthrough.programs
    name, leases = f"{real.name}-manager", lease_namespace_of(real.name)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": leases}}
    await environment.kcp.apply(NAMESPACES, leases, namespace, field_manager="test")
    kubeconfig = await create_identity(
        environment.kcp, environment.kcp_kubeconfig, name=name, namespace=KCP, roles=roles_of(real.name, KCP)
    )
    file = write_private(environment.directory / f"{name}.kubeconfig", kubeconfig)
    started = programs.started["module-manager"]
    script, *_ = started.command
    target = f"{real.manager.__name__}:objects"
    options = (f"--kubeconfig={file}", "--health-address=127.0.0.1:0")
    root = str(Path(__file__).parents[3])
    program = replace(
        started,
        name=name,
        command=(script, "run", target, *options),
        environment={**started.environment, "PYTHONPATH": root},
    )
    data = {**real.module_cr, "spec": {}}
    entry = template(real.name, real.version, data=data, enable_module_config=True)
    offered = template_with(layers, entry, real.crds())
    await environment.kcp.apply(MODULE_POLICIES, real.name, real.policy, KCP, field_manager="test")
    async with in_catalog(environment.kcp, offered, release(real.name, regular=real.version)):
        await programs.start(program)
        await walkthrough.set_modules([CLOUD_RESOURCES, {"name": real.name, "managed": True}])
        try:
            yield environment
        finally:
            await walkthrough.set_modules([CLOUD_RESOURCES])
            await eventually(gone(environment, real.name))
            await programs.stop(name)
            await environment.kcp.delete(MODULE_POLICIES, real.name, KCP)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def keda(walkthrough: Walkthrough, layers: BlobServer) -> AsyncIterator[Environment]:
    async with enabled(KEDA, walkthrough, layers) as environment:
        yield environment


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def telemetry(walkthrough: Walkthrough, layers: BlobServer) -> AsyncIterator[Environment]:
    async with enabled(TELEMETRY, walkthrough, layers) as environment:
        yield environment


async def configured(real: RealModule, environment: Environment, spec: dict[str, Any]) -> None:
    """Have a user write their configuration, as soon as the CRD is served."""

    async def written() -> bool:
        document = {**real.module_cr, "spec": spec}
        try:
            await environment.skr.apply(real.module_crs, "default", document, SKR, field_manager="user", force=True)
        except NotServed:
            return False
        return True

    await eventually(written, what="the CRD is served")


async def answered(real: RealModule, environment: Environment, state: str) -> dict[str, Any]:
    """Return the status of the Module CR once it is about the newest version, and has this state."""

    async def status() -> dict[str, Any] | None:
        found = await environment.skr.get(real.module_crs, "default", SKR)
        shown: dict[str, Any] = found.get("status", {})
        ready = [each for each in shown.get("conditions", ()) if each["type"] == "Ready"]
        is_current = bool(ready) and ready[0].get("observedGeneration") == found["metadata"]["generation"]
        return shown if is_current and shown["state"] == state else None

    return await eventually(status, what=f"the status of the {real.module_crs.kind} is {state}")


async def test_users_configuration_comes_into_force_and_is_answered_in_the_real_status(keda: Environment) -> None:
    spec: dict[str, Any] = {
        "logging": {"operator": {"level": "debug", "format": "json"}},
        "resources": {"operator": {"limits": {"cpu": "800m", "memory": "1Gi"}, "requests": {"cpu": "150m"}}},
        "podAnnotations": {"operator": {"metrics.dynatrace.com/scrape": "true"}},
        "env": [{"name": "KEDA_HTTP_DEFAULT_TIMEOUT", "value": "5000"}],
    }
    await configured(KEDA, keda, spec)

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
    status = await answered(KEDA, keda, "Processing")
    assert (status["served"], status["kedaVersion"]) == ("True", "2.17.2")


async def test_mistake_of_the_user_is_answered_in_the_real_status(keda: Environment) -> None:
    await configured(KEDA, keda, {"env": [{"name": "", "value": "1"}]})
    status = await answered(KEDA, keda, "Error")
    (ready,) = (each for each in status["conditions"] if each["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "VariableWithoutName")


async def test_status_that_knows_neither_processing_nor_error_is_answered(telemetry: Environment) -> None:
    """The CRD of telemetry has two versions, a required state, and of states Deleting, Ready and Warning alone."""
    labels = [{"key": "app"}, {"keyPrefix": "team/"}]
    spec = {"metric": {"collectionInterval": "1m30s"}, "enrichments": {"extractPodLabels": labels}}
    await configured(TELEMETRY, telemetry, spec)
    endpoints = {"otlp": {"grpc": "http://telemetry-otlp.kyma-system:4317"}}

    async def complete() -> bool:
        return (await answered(TELEMETRY, telemetry, "Ready")).get("endpoints") == endpoints

    await eventually(complete, what="the status has the manager's fields")
    applied: Any = await telemetry.skr.get(CONFIG_MAPS, "telemetry-gateway", SKR)
    assert applied["data"] == {"labels": "app,team/*", "interval": "1m30s"}

    await configured(TELEMETRY, telemetry, {"enrichments": {"extractPodLabels": [*labels, *labels]}})
    status = await answered(TELEMETRY, telemetry, "Warning")
    (ready,) = (each for each in status["conditions"] if each["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "LabelTwice")
