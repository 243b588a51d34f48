"""Simulated user clusters for a control plane on a real API server, controlled by lines of JSON on the input.

Deployments run, and default CRs are Ready, as soon as they are written. Each line of the output answers one command,
or reports an awaited Deployment: `{"applied": ["kyma-7", "module"], "at": 12.5}`. Run by
`benchmarks.go_lifecycle_manager`.
"""

import argparse
import gc
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks.processes.fleet_documents import API, MERGE
from benchmarks.processes.output import obey, write_line
from kube_simulation import Answer, ApiRequest, Rule, SimulatedCluster, Simulation, serve_simulation
from lifecycle_manager_api import names
from tests.takeover_from_go.played import status_of

Document = dict[str, Any]
KYMA_CR = f"{API}/{names.SKR_NAMESPACE}/kymas/{names.DEFAULT_KYMA_NAME}"


class Workloads(Rule):
    """Runs the Deployments of a cluster, and reports its Module CRs as Ready."""

    def __init__(self, cluster: SimulatedCluster, applied: Callable[[str, str], None]) -> None:
        self.cluster = cluster
        self.applied = applied

    async def around(self, request: ApiRequest, proceed: Callable[[], Awaitable[Answer]]) -> Answer:
        answer = await proceed()
        if request.kind is None or not request.is_write or request.subresource or answer.code >= 300:
            return answer
        if request.kind.plural == "deployments" and request.verb == "apply":
            self._run(request, answer.document())
        elif request.kind.plural == "samples" and request.verb == "create":
            live = answer.document()
            self.cluster.answer_to("PATCH", f"{request.path}/{live['metadata']['name']}/status", READY, MERGE)
        return answer

    def _run(self, request: ApiRequest, live: Document) -> None:
        if live.get("status", {}).get("observedGeneration") != live["metadata"]["generation"]:
            self.cluster.answer_to("PATCH", f"{request.path}/status", {"status": status_of(live)}, MERGE)
            self.applied(self.cluster.name, live["metadata"]["name"])


READY = {"status": {"state": "Ready"}}


class RequestCounts(Rule):
    """Counts requests by verb: all but watches, the writes among them, and the dry runs."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    async def around(self, request: ApiRequest, proceed: Callable[[], Awaitable[Answer]]) -> Answer:
        if request.verb != "watch":
            self.counts["requests"] += 1
            self.counts[request.verb] += 1
            self.counts["writes"] += request.is_write
            self.counts["dry_runs"] += request.dry_run
        return await proceed()


class UserClusters:
    """The clusters, and the commands on them."""

    def __init__(self, simulation: Simulation, names_of_clusters: list[str]) -> None:
        self.clusters = {name: simulation.cluster(name) for name in names_of_clusters}
        self.requests = RequestCounts()
        self.awaited: set[tuple[str, str]] = set()
        for cluster in self.clusters.values():
            cluster.add_rule(self.requests)
            cluster.add_rule(Workloads(cluster, self._applied))

    def _applied(self, cluster: str, module: str) -> None:
        if (cluster, module) in self.awaited:
            self.awaited.discard((cluster, module))
            write_line({"applied": [cluster, module], "at": time.monotonic()})

    def _counts(self) -> Document:
        return dict(self.requests.counts)

    def _add(self, cluster: str, module: str) -> Document:
        """Add a module to the Kyma CR of a cluster as its user, and report when its Deployment is applied."""
        live = self.clusters[cluster].answer_to("GET", KYMA_CR).document()
        self.awaited.add((cluster, module))
        patch = {"spec": {"modules": [*live["spec"]["modules"], {"name": module, "managed": True}]}}
        self.clusters[cluster].answer_to("PATCH", f"{KYMA_CR}?fieldManager=user", patch, MERGE)
        metadata = live["metadata"]
        return {"uid": metadata["uid"], "version": metadata["resourceVersion"], "at": time.monotonic()}


async def serve(kymas: list[str]) -> None:
    """Serve the clusters and execute commands until the input ends."""
    async with serve_simulation(history=20_000, records=0) as simulation:
        clusters = UserClusters(simulation, kymas)
        gc.disable()  # it takes seconds here, and would count as a pause of the measured process
        write_line({"kubeconfig": {}, "kubeconfigs": [each.kubeconfig for each in clusters.clusters.values()]})
        await obey(clusters)


def main() -> None:
    """Read the command line and serve."""
    import uvloop  # noqa: PLC0415 - needed by the program only

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kymas", nargs="+", help="names of the clusters")
    uvloop.run(serve(parser.parse_args().kymas))


if __name__ == "__main__":
    main()
