"""The simulated fleet: a control plane with a module in three versions, and user clusters that run it.

Nothing runs a Deployment here. So a rule reports it as available a moment after it was written, or as failed, where
the version is the one that fails and the cluster is one of those without enough memory for it.
"""

import asyncio
import base64
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kube_runtime import dump_yaml, parse_objects
from kube_simulation import Answer, ApiRequest, Rule, SimulatedCluster, Simulation, serve_simulation
from kyma_demo.registry import entry, serve_layers, template_specs
from lifecycle_manager_api import crds, names
from lifecycle_manager_api.module_authorization import module_authorization_as_yaml

MODULE, CHANNEL = "keda", "regular"
FIRST, GOOD, FAILING = "1.0.0", "1.1.0", "1.2.0"
STRATEGY = "careful"
STAGE = "stage"
REGIONS = ("eu10", "eu20", "us10", "us20", "ap10")
CANARY_SHARE = 20
"""One of so many clusters is a canary."""
FAILING_SHARE = 7
"""One of so many clusters, canaries excepted, can't run the failing version."""
START_SECONDS = (0.2, 1.0)
"""How long a Deployment takes to be available or to fail."""
FAULT = "container keda-operator needs 2Gi of memory, the node has 1Gi (OOMKilled)"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{names.SKR_NAMESPACE}/deployments/keda-operator"
MERGE_PATCH = "application/merge-patch+json"
Document = dict[str, Any]


@dataclass(eq=False)
class DeploymentController(Rule):
    """Reports the module's Deployment as available, or as failed with a version that does not run in this cluster."""

    cluster: SimulatedCluster
    start_seconds: Callable[[], float]
    runs_failing_version: bool

    async def around(self, request: ApiRequest, proceed: Callable[[], Awaitable[Answer]]) -> Answer:
        """Answer a request; report the Deployment's status a moment later, also where the client has gone meanwhile."""
        is_deployment = request.kind is not None and request.kind.plural == "deployments"
        try:
            return await proceed()
        finally:
            if is_deployment and request.is_write and not request.subresource:
                asyncio.get_running_loop().call_later(self.start_seconds(), self._report)

    def _report(self) -> None:
        found = self.cluster.answer_to("GET", DEPLOYMENT)
        if found.code != 200:
            return
        running = version_of(found)
        generation = found.document()["metadata"]["generation"]
        status: Document = {"observedGeneration": generation, "replicas": 1, "updatedReplicas": 1}
        if running != FAILING or self.runs_failing_version:
            status |= {"availableReplicas": 1, "readyReplicas": 1, "conditions": []}
        else:
            reason = {"reason": "ProgressDeadlineExceeded", "message": FAULT}
            status |= {"availableReplicas": 0, "conditions": [{"type": "Progressing", "status": "False", **reason}]}
        self.cluster.answer_to("PATCH", f"{DEPLOYMENT}/status", {"status": status}, MERGE_PATCH)


class Reviews(Rule):
    """Lets everybody with a token see the fleet page: nothing there is real."""

    async def around(self, request: ApiRequest, proceed: Callable[[], Awaitable[Answer]]) -> Answer:
        """Answer reviews of tokens and rights, and pass on all else."""
        if request.path.endswith(("/tokenreviews", "/subjectaccessreviews")):
            status = {"authenticated": True, "allowed": True, "user": {"username": "visitor"}}
            return Answer(201, msgspec.json.encode({"metadata": {}, "status": status}))
        return await proceed()


@dataclass(eq=False)
class SimulatedFleet:
    """The control plane and the user clusters, by the names of their Kymas."""

    kcp: SimulatedCluster
    clusters: dict[str, SimulatedCluster] = field(default_factory=dict)

    def versions(self) -> Counter[str]:
        """Return how many clusters have each version of the module; empty where there is none."""
        return Counter(version_in(each) for each in self.clusters.values())


def version_in(cluster: SimulatedCluster) -> str:
    """Return the version of the module's Deployment in a cluster; empty where there is none."""
    answer = cluster.answer_to("GET", DEPLOYMENT)
    return version_of(answer) if answer.code == 200 else ""


def version_of(deployment: Answer) -> str:
    (container,) = deployment.document()["spec"]["template"]["spec"]["containers"]
    return str(container["image"]).rpartition(":")[2]


@asynccontextmanager
async def simulated_fleet(clusters: int, *, pace: float, soak_seconds: float) -> AsyncIterator[SimulatedFleet]:
    """Serve a control plane with so many user clusters; each has a Kyma with the module.

    `pace` shortens how long Deployments take to start.
    """
    layers = {version: dump_yaml(_deployment(version)).encode() for version in (FIRST, GOOD, FAILING)}
    async with serve_simulation(history=50_000, records=0) as simulation, serve_layers(layers.values()) as registry:
        fleet = SimulatedFleet(simulation.cluster("kcp"))
        for namespace in (names.KCP_NAMESPACE, names.KCP_LEASE_NAMESPACE):
            fleet.kcp.answer_to("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        fleet.kcp.create(*crds.all_crds(), *_policies())
        fleet.kcp.create(_strategy(soak_seconds), *_catalog(layers, registry))
        fleet.kcp.add_rule(Reviews())
        _register(fleet, simulation, clusters, pace)
        yield fleet


def _policies() -> Iterator[Document]:
    return (dict(each.document) for each in parse_objects(module_authorization_as_yaml()))


def _register(fleet: SimulatedFleet, simulation: Simulation, clusters: int, pace: float) -> None:
    chance = random.Random(7)  # noqa: S311 - the same fleet in every run

    def start_seconds() -> float:
        return pace * chance.uniform(*START_SECONDS)

    for number in range(clusters):
        name = f"kyma-{number:03}"
        cluster = fleet.clusters[name] = simulation.cluster(name)
        is_canary = number % CANARY_SHARE == 0
        runs_failing_version = is_canary or number % FAILING_SHARE != 1
        cluster.add_rule(DeploymentController(cluster, start_seconds, runs_failing_version))
        fleet.kcp.create(*_registration(name, number, cluster.kubeconfig, is_canary=is_canary))


def _registration(name: str, number: int, kubeconfig: Document, *, is_canary: bool) -> Iterator[Document]:
    """Return the access Secret of a cluster and its Kyma."""
    labels = {names.KYMA_NAME: name, names.MANAGED_BY: names.LIFECYCLE_MANAGER}
    config = base64.b64encode(msgspec.json.encode(kubeconfig)).decode()
    metadata = {"name": f"kubeconfig-{name}", "namespace": names.KCP_NAMESPACE, "labels": labels}
    yield {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": {"config": config}}
    marks = {
        names.RUNTIME_ID: f"runtime-{number}",
        names.REGION: REGIONS[number % len(REGIONS)],
        STAGE: "canary" if is_canary else "production",
    }
    kyma = entry("v1beta2", "Kyma", name, {"channel": CHANNEL, "modules": [{"name": MODULE}]})
    yield {**kyma, "metadata": kyma["metadata"] | {"labels": marks}}


def _strategy(soak_seconds: float) -> Document:
    soak = f"{int(soak_seconds * 1000)}ms"
    europe = {"matchExpressions": [{"key": names.REGION, "operator": "In", "values": ["eu10", "eu20"]}]}
    canary = {"matchLabels": {STAGE: "canary"}}
    waves = [
        {"name": "canary", "kymaSelector": canary, "maxConcurrent": "50%", "maxFailures": "0", "soak": soak},
        {"name": "europe", "kymaSelector": europe, "maxConcurrent": "25%", "maxFailures": "5%", "soak": soak},
    ]
    spec = {"waves": waves, "remaining": {"maxConcurrent": "25%", "maxFailures": "5%", "soak": soak}}
    return entry("v1alpha1", "RolloutStrategy", STRATEGY, spec)


def _catalog(layers: dict[str, bytes], registry: str) -> Iterator[Document]:
    for version, spec in template_specs(MODULE, layers, registry).items():
        yield entry("v1beta2", "ModuleTemplate", f"{MODULE}-{version}", spec)
    channels = [{"channel": CHANNEL, "version": FIRST}]
    yield entry("v1beta2", "ModuleReleaseMeta", MODULE, {"moduleName": MODULE, "channels": channels})


def _deployment(version: str) -> Document:
    labels = {"app": "keda-operator"}
    container = {"name": "keda-operator", "image": f"registry.example.com/keda-operator:{version}"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "keda-operator", "namespace": names.SKR_NAMESPACE},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }
