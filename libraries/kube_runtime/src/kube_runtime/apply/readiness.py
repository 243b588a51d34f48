"""Whether an object has become what it should be, by the rules that `kstatus` made common.

Built-in kinds say it each in their own way; every other kind by its conditions, or not at all, and then it is as
it should be as soon as it is there.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

ReadinessState = Literal["Current", "InProgress", "Failed", "Terminating"]
Live = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Readiness:
    """How far an object is, and in people's words what it waits for."""

    state: ReadinessState
    message: str


_CURRENT = Readiness("Current", "")


def readiness(live: Live) -> Readiness:
    """Judge an object as it was read from the API server. What is malformed counts as absent."""
    metadata = _mapping(live.get("metadata"))
    if metadata.get("deletionTimestamp"):
        return Readiness("Terminating", "it is being deleted")
    status = _mapping(live.get("status"))
    generation, observed = _number(metadata, "generation"), status.get("observedGeneration")
    if isinstance(observed, int) and observed != generation:
        return _in_progress(f"generation {generation} is not observed yet")
    group = str(live.get("apiVersion", "")).rpartition("/")[0]
    judge = _JUDGES.get((group, str(live.get("kind", ""))))
    if judge is not None:
        return judge(live)
    return _by_conditions(live)


def _by_conditions(live: Live) -> Readiness:
    if condition_of(live, "Stalled").get("status") == "True":
        return Readiness("Failed", _message(live, "Stalled"))
    if condition_of(live, "Reconciling").get("status") == "True":
        return _in_progress(_message(live, "Reconciling"))
    ready = condition_of(live, "Ready")
    if ready and ready.get("status") != "True":
        return _in_progress(_message(live, "Ready"))
    return _CURRENT


def _deployment(live: Live) -> Readiness:
    spec, status = _mapping(live.get("spec")), _mapping(live.get("status"))
    if condition_of(live, "Progressing").get("reason") == "ProgressDeadlineExceeded":
        return Readiness("Failed", _message(live, "Progressing"))
    if "observedGeneration" not in status and _number(spec, "replicas", 1):
        return _in_progress("its controller has not observed it yet")
    wanted = _number(spec, "replicas", 1)
    updated, total = _number(status, "updatedReplicas"), _number(status, "replicas")
    if updated < wanted:
        why = ": it is paused" if spec.get("paused") is True else ""
        if condition_of(live, "ReplicaFailure").get("status") == "True":
            why = f": {_message(live, 'ReplicaFailure')}"
        return _in_progress(f"{updated} of {wanted} replicas are updated{why}")
    if total > wanted:
        return _in_progress(f"{total - wanted} replicas of an earlier revision are still there")
    available = _number(status, "availableReplicas")
    if available < wanted:
        return _in_progress(f"{available} of {wanted} replicas are available")
    return _CURRENT


def _stateful_set(live: Live) -> Readiness:
    spec, status = _mapping(live.get("spec")), _mapping(live.get("status"))
    wanted = _number(spec, "replicas", 1)
    ready = _number(status, "readyReplicas")
    if _number(status, "replicas") != wanted:
        return _in_progress(f"{_number(status, 'replicas')} of {wanted} replicas are there")
    if ready < wanted:
        return _in_progress(f"{ready} of {wanted} replicas are ready")
    strategy = _mapping(spec.get("updateStrategy"))
    if strategy.get("type") == "OnDelete":
        return _CURRENT
    kept = _number(_mapping(strategy.get("rollingUpdate")), "partition")
    updated = _number(status, "updatedReplicas")
    if updated < wanted - kept:
        return _in_progress(f"{updated} of {wanted - kept} replicas are updated")
    if not kept and status.get("currentRevision") != status.get("updateRevision"):
        return _in_progress("replicas of an earlier revision are still there")
    return _CURRENT


def _daemon_set(live: Live) -> Readiness:
    spec, status = _mapping(live.get("spec")), _mapping(live.get("status"))
    if "observedGeneration" not in status:
        return _in_progress("its controller has not observed it yet")
    wanted = _number(status, "desiredNumberScheduled")
    counts = [("updatedNumberScheduled", "updated"), ("numberAvailable", "available")]
    if _mapping(spec.get("updateStrategy")).get("type") == "OnDelete":
        del counts[0]  # users delete the Pods of the former revision, when they want
    for field, words in counts:
        count = _number(status, field)
        if count < wanted:
            return _in_progress(f"{count} of {wanted} Pods are {words}")
    return _CURRENT


def _replica_set(live: Live) -> Readiness:
    spec, status = _mapping(live.get("spec")), _mapping(live.get("status"))
    if condition_of(live, "ReplicaFailure").get("status") == "True":
        return _in_progress(_message(live, "ReplicaFailure"))
    wanted, available = _number(spec, "replicas", 1), _number(status, "availableReplicas")
    if available < wanted or _number(status, "replicas") > wanted:
        return _in_progress(f"{available} of {wanted} replicas are available")
    return _CURRENT


def _job(live: Live) -> Readiness:
    if condition_of(live, "Failed").get("status") == "True":
        return Readiness("Failed", _message(live, "Failed"))
    if condition_of(live, "Complete").get("status") == "True" or _mapping(live.get("status")).get("startTime"):
        return _CURRENT
    if _mapping(live.get("spec")).get("suspend") is True and condition_of(live, "Suspended").get("status") == "True":
        return _CURRENT  # it waits for whoever has it run
    return _in_progress("it has not started yet")


def _pod(live: Live) -> Readiness:
    status = _mapping(live.get("status"))
    phase = status.get("phase")
    if phase == "Succeeded":
        return _CURRENT
    if phase == "Failed":
        return Readiness("Failed", str(status.get("message") or status.get("reason") or "it failed"))
    if phase == "Running" and condition_of(live, "Ready").get("status") == "True":
        return _CURRENT
    crashing = _waiting_reason(status)
    if crashing in {"CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "InvalidImageName"}:
        return Readiness("Failed", f"a container waits: {crashing}")
    return _in_progress(
        _message(live, "Ready") if condition_of(live, "Ready") else f"it is {phase or 'not scheduled yet'}"
    )


def _service(live: Live) -> Readiness:
    spec, status = _mapping(live.get("spec")), _mapping(live.get("status"))
    if spec.get("type") == "LoadBalancer" and not _mapping(status.get("loadBalancer")).get("ingress"):
        return _in_progress("the load balancer has no address yet")
    return _CURRENT


def _claim(live: Live) -> Readiness:
    phase = _mapping(live.get("status")).get("phase")
    return _CURRENT if phase == "Bound" else _in_progress(f"it is {phase or 'not bound yet'}")


def lacks_names_alone(crd: Live) -> bool:
    """Tell whether a kind is served by what it is called, so that its CRD lacks no more than a short name."""
    spec, status = _mapping(crd.get("spec")), _mapping(crd.get("status"))
    wanted, accepted = _mapping(spec.get("names")), _mapping(status.get("acceptedNames"))
    same = all(accepted.get(key) and accepted.get(key) == wanted.get(key) for key in ("kind", "plural"))
    return same and condition_of(crd, "Established").get("status") == "True"


def _crd(live: Live) -> Readiness:
    if condition_of(live, "NamesAccepted").get("status") == "False" and not lacks_names_alone(live):
        return Readiness("Failed", _message(live, "NamesAccepted"))
    if condition_of(live, "Established").get("status") == "True":
        return _CURRENT
    return _in_progress("it is not served yet")


def _namespace(live: Live) -> Readiness:
    phase = _mapping(live.get("status")).get("phase")
    return _CURRENT if phase in {None, "Active"} else _in_progress(f"it is {phase}")


def _disruption_budget(live: Live) -> Readiness:
    seen = "observedGeneration" in _mapping(live.get("status"))
    return _CURRENT if seen else _in_progress("its controller has not observed it yet")


_JUDGES: Mapping[tuple[str, str], Callable[[Live], Readiness]] = {
    ("apps", "Deployment"): _deployment,
    ("apps", "StatefulSet"): _stateful_set,
    ("apps", "DaemonSet"): _daemon_set,
    ("apps", "ReplicaSet"): _replica_set,
    ("batch", "Job"): _job,
    ("", "Pod"): _pod,
    ("", "Service"): _service,
    ("", "PersistentVolumeClaim"): _claim,
    ("", "Namespace"): _namespace,
    ("policy", "PodDisruptionBudget"): _disruption_budget,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _crd,
}


def _in_progress(message: str) -> Readiness:
    return Readiness("InProgress", message)


def _mapping(value: object) -> Live:
    return value if isinstance(value, Mapping) else {}


def _number(section: Live, key: str, default: int = 0) -> int:
    value = section.get(key, default)
    return value if isinstance(value, int) else default


def condition_of(live: Live, kind: str) -> Live:
    """Return a condition of an object; nothing where it has none of the kind."""
    conditions = _mapping(live.get("status")).get("conditions")
    if not isinstance(conditions, Sequence) or isinstance(conditions, str):
        return {}
    return next((each for each in conditions if isinstance(each, Mapping) and each.get("type") == kind), {})


def _message(live: Live, kind: str) -> str:
    condition = condition_of(live, kind)
    return str(condition.get("message") or condition.get("reason") or f"{kind} is {condition.get('status')}")


def _waiting_reason(status: Live) -> str:
    containers = status.get("containerStatuses")
    for container in containers if isinstance(containers, list) else ():
        reason = _mapping(_mapping(_mapping(container).get("state")).get("waiting")).get("reason")
        if reason:
            return str(reason)
    return ""
