"""Whether an object has become what it should be."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from kube_runtime import readiness

READY = {"type": "Ready", "status": "True"}


def live(api_version: str, kind: str, spec: Any = None, status: Any = None, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "x", "generation": 2, **metadata},
        "spec": spec or {},
        "status": status or {},
    }


def deployment(replicas: int = 3, **status: Any) -> dict[str, Any]:
    filled = {"observedGeneration": 2, "replicas": 3, "updatedReplicas": 3, "availableReplicas": 3, **status}
    return live("apps/v1", "Deployment", {"replicas": replicas}, filled)


def stateful_set(strategy: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    filled = {"replicas": 3, "readyReplicas": 3, "updatedReplicas": 3, "currentRevision": "b", "updateRevision": "b"}
    return live("apps/v1", "StatefulSet", {"replicas": 3, "updateStrategy": strategy or {}}, {**filled, **status})


def daemon_set(strategy: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    filled = {"observedGeneration": 2, "desiredNumberScheduled": 3, "updatedNumberScheduled": 3, "numberAvailable": 3}
    return live("apps/v1", "DaemonSet", {"updateStrategy": strategy or {}}, {**filled, **status})


def conditions(*given: tuple[str, str]) -> dict[str, Any]:
    return {"conditions": [{"type": kind, "status": status, "message": f"{kind} {status}"} for kind, status in given]}


def definition(**accepted: str) -> dict[str, Any]:
    names = {"kind": "Thing", "plural": "things", "singular": "thing", "shortNames": ["thing"]}
    status = {"acceptedNames": accepted, **conditions(("Established", "True"), ("NamesAccepted", "False"))}
    return live("apiextensions.k8s.io/v1", "CustomResourceDefinition", {"names": names}, status)


def waiting_pod(reason: str) -> dict[str, Any]:
    return live(
        "v1", "Pod", None, {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": reason}}}]}
    )


@pytest.mark.parametrize(
    ("item", "state"),
    [
        (live("v1", "ConfigMap"), "Current"),
        (live("v1", "ConfigMap", deletionTimestamp="2026-01-01T00:00:00Z"), "Terminating"),
        (deployment(), "Current"),
        (deployment(observedGeneration=1), "InProgress"),
        (deployment(updatedReplicas=2), "InProgress"),
        (deployment(replicas=2), "InProgress"),
        (deployment(availableReplicas=2), "InProgress"),
        (live("apps/v1", "Deployment", {"replicas": 1}), "InProgress"),
        (live("apps/v1", "Deployment", {"replicas": 0}), "Current"),
        (deployment(conditions=[{"type": "Progressing", "reason": "ProgressDeadlineExceeded"}]), "Failed"),
        (stateful_set(), "Current"),
        (stateful_set(replicas=2), "InProgress"),
        (stateful_set(readyReplicas=2), "InProgress"),
        (stateful_set(updatedReplicas=2, currentRevision="a"), "InProgress"),
        (stateful_set(currentRevision="a"), "InProgress"),
        (stateful_set({"type": "OnDelete"}, updatedReplicas=0, currentRevision="a"), "Current"),
        (daemon_set({"type": "OnDelete"}, updatedNumberScheduled=0), "Current"),
        (daemon_set({"type": "OnDelete"}, updatedNumberScheduled=0, numberAvailable=2), "InProgress"),
        (stateful_set({"rollingUpdate": {"partition": 2}}, updatedReplicas=1, currentRevision="a"), "Current"),
        (daemon_set(), "Current"),
        (daemon_set(numberAvailable=1), "InProgress"),
        (daemon_set(updatedNumberScheduled=1), "InProgress"),
        (live("apps/v1", "DaemonSet"), "InProgress"),
        (live("apps/v1", "ReplicaSet", {"replicas": 1}, {"replicas": 1, "availableReplicas": 1}), "Current"),
        (live("apps/v1", "ReplicaSet", {"replicas": 1}, {"replicas": 2, "availableReplicas": 1}), "InProgress"),
        (live("apps/v1", "ReplicaSet", {}, conditions(("ReplicaFailure", "True"))), "InProgress"),
        (live("batch/v1", "Job"), "InProgress"),
        (live("batch/v1", "Job", {}, {"startTime": "now"}), "Current"),
        (live("batch/v1", "Job", {}, conditions(("Complete", "True"))), "Current"),
        (live("batch/v1", "Job", {}, conditions(("Failed", "True"))), "Failed"),
        (live("batch/v1", "Job", {"suspend": True}, conditions(("Suspended", "True"))), "Current"),
        (live("batch/v1", "Job", {"suspend": True}), "InProgress"),
        (live("batch/v1", "Job", {"suspend": False}, conditions(("Suspended", "True"))), "InProgress"),
        (live("v1", "Pod", {}, {"phase": "Running", "conditions": [READY]}), "Current"),
        (live("v1", "Pod", {}, {"phase": "Running"}), "InProgress"),
        (live("v1", "Pod", {}, {"phase": "Succeeded"}), "Current"),
        (live("v1", "Pod", {}, {"phase": "Failed"}), "Failed"),
        (live("v1", "Pod"), "InProgress"),
        (waiting_pod("CrashLoopBackOff"), "Failed"),
        (waiting_pod("ContainerCreating"), "InProgress"),
        (live("v1", "Service", {"type": "ClusterIP"}), "Current"),
        (live("v1", "Service", {"type": "LoadBalancer"}), "InProgress"),
        (
            live("v1", "Service", {"type": "LoadBalancer"}, {"loadBalancer": {"ingress": [{"ip": "1.1.1.1"}]}}),
            "Current",
        ),
        (live("v1", "PersistentVolumeClaim", {}, {"phase": "Bound"}), "Current"),
        (live("v1", "PersistentVolumeClaim", {}, {"phase": "Pending"}), "InProgress"),
        (live("v1", "Namespace", {}, {"phase": "Active"}), "Current"),
        (live("policy/v1", "PodDisruptionBudget"), "InProgress"),
        (live("apiextensions.k8s.io/v1", "CustomResourceDefinition"), "InProgress"),
        (
            live("apiextensions.k8s.io/v1", "CustomResourceDefinition", {}, conditions(("Established", "True"))),
            "Current",
        ),
        (
            live("apiextensions.k8s.io/v1", "CustomResourceDefinition", {}, conditions(("NamesAccepted", "False"))),
            "Failed",
        ),
        (definition(kind="Thing", plural="things"), "Current"),
        (definition(kind="Thing", plural="former"), "Failed"),
        (live("example.com/v1", "Thing", {}, conditions(("Ready", "True"))), "Current"),
        (live("example.com/v1", "Thing", {}, conditions(("Ready", "Unknown"))), "InProgress"),
        (live("example.com/v1", "Thing", {}, conditions(("Ready", "False"))), "InProgress"),
        (live("example.com/v1", "Thing", {}, conditions(("Ready", "True"), ("Reconciling", "True"))), "InProgress"),
        (live("example.com/v1", "Thing", {}, conditions(("Ready", "False"), ("Stalled", "True"))), "Failed"),
        (live("example.com/v1", "Thing", {}, {"observedGeneration": 1, **conditions(("Ready", "True"))}), "InProgress"),
    ],
)
def test_state(item: dict[str, Any], state: str) -> None:
    assert readiness(item).state == state
    assert bool(readiness(item).message) == (state != "Current")


def test_message_says_what_is_waited_for() -> None:
    assert readiness(deployment(availableReplicas=1)).message == "1 of 3 replicas are available"
    refused = deployment(updatedReplicas=0, **conditions(("ReplicaFailure", "True")))
    assert readiness(refused).message == "0 of 3 replicas are updated: ReplicaFailure True"
    paused = live("apps/v1", "Deployment", {"replicas": 1, "paused": True}, {"observedGeneration": 2})
    assert readiness(paused).message == "0 of 1 replicas are updated: it is paused"
    assert readiness(live("e.com/v1", "Thing", {}, conditions(("Ready", "False")))).message == "Ready False"


JSON = some.recursive(
    some.one_of(some.none(), some.booleans(), some.integers(), some.text(max_size=5)),
    lambda inner: some.one_of(
        some.lists(inner, max_size=3), some.dictionaries(some.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
KINDS = some.sampled_from(
    [("apps/v1", kind) for kind in ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")]
    + [("v1", "Pod"), ("v1", "Service"), ("batch/v1", "Job"), ("example.com/v1", "Thing")]
)


@given(
    KINDS, JSON, some.dictionaries(some.sampled_from(["conditions", "phase", "replicas", "loadBalancer"]), JSON), JSON
)
def test_malformed_object_is_judged_and_breaks_nothing(
    kind: tuple[str, str], spec: Any, status: Any, metadata: Any
) -> None:
    item = {"apiVersion": kind[0], "kind": kind[1], "metadata": metadata, "spec": spec, "status": status}

    assert readiness(item).state in {"Current", "InProgress", "Failed", "Terminating"}
