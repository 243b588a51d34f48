"""What runs in clusters beside both Lifecycle Managers: controllers of Deployments, kubelets, operators of modules."""

import asyncio
from contextlib import suppress
from itertools import count
from typing import Any

from kube_runtime import Client, Conflict, KindUnknown, NotFound, NotServed, Resource
from tests.kinds import DEPLOYMENTS
from tests.takeover_from_go.modules import GoModule

Document = dict[str, Any]
POLL_SECONDS = 0.3
TURNS_OF_MODULES = 4
"""Each module is a request to each cluster, which costs more than what is tested."""
COUNTS = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
LONG_AGO = "2026-01-01T00:00:00Z"


async def run_cluster(skr: Client, modules: tuple[GoModule, ...]) -> None:
    """Have Deployments run and default CRs be Ready in a cluster, until cancelled."""
    for turn in count():
        await run_deployments(skr)
        if turn % TURNS_OF_MODULES == 0:
            for module in modules:
                await _report_ready(skr, samples_of(module))
        await asyncio.sleep(POLL_SECONDS)


def samples_of(module: GoModule) -> Resource[Document]:
    return Resource.dynamic(module.group, "v1alpha1", "Sample", "samples", namespaced=not module.is_cluster_scoped)


async def run_deployments(cluster: Client) -> None:
    """Report each Deployment as its controller does once its Pods run."""
    for live in (await cluster.list(DEPLOYMENTS)).items:
        metadata, wanted = live["metadata"], status_of(live)
        if (live.get("status") or {}) == wanted:
            continue
        with suppress(NotFound, NotServed, Conflict):  # changed meanwhile; the next turn sees it
            await cluster.merge_patch(
                DEPLOYMENTS,
                metadata["name"],
                {
                    "metadata": {"resourceVersion": metadata["resourceVersion"]},
                    "status": dict.fromkeys(COUNTS) | wanted,
                },
                metadata["namespace"],
                subresource="status",
                field_manager="kube-controller-manager",
            )


def status_of(live: Document) -> Document:
    """Return the status of a Deployment whose Pods run."""
    replicas = live["spec"].get("replicas", 1)
    reasons = {"Available": "MinimumReplicasAvailable", "Progressing": "NewReplicaSetAvailable"}
    times = {"lastUpdateTime": LONG_AGO, "lastTransitionTime": LONG_AGO}
    conditions = [{"type": kind, "status": "True", "reason": reason, **times} for kind, reason in reasons.items()]
    running = dict.fromkeys(COUNTS, replicas) if replicas else {}
    return {"observedGeneration": live["metadata"]["generation"], **running, "conditions": conditions}


async def _report_ready(skr: Client, samples: Resource[Document]) -> None:
    """Report the objects of a module as its operator does."""
    try:
        found = (await skr.list(samples)).items
    except (NotFound, KindUnknown):
        return
    for live in found:
        metadata = live["metadata"]
        if (live.get("status") or {}).get("state") != "Ready" and "deletionTimestamp" not in metadata:
            with suppress(NotFound, NotServed):
                await skr.merge_patch(
                    samples,
                    metadata["name"],
                    {"status": {"state": "Ready"}},
                    metadata.get("namespace"),
                    subresource="status",
                    field_manager="manager",
                )
