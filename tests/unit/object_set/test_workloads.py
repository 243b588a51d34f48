"""What the Pods of a workload say about it."""

from typing import Any

import pytest

from kube_runtime import InventoryEntry, Readiness
from lifecycle_manager.object_set.workloads import pods_of, with_pods

DEPLOYMENT = InventoryEntry("apps", "v1", "Deployment", "kyma-system", "garden")
CONFIG_MAP = InventoryEntry("", "v1", "ConfigMap", "kyma-system", "garden")
NOT_READY = Readiness("InProgress", "0 of 1 replicas are available")


@pytest.mark.parametrize(
    "pod",
    [
        {},
        {"status": {"containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]}},
        {"status": {"containerStatuses": [{"state": {"running": {}}}]}},
        {"status": {"containerStatuses": "many"}},
        {"status": {"containerStatuses": [{"image": 7, "state": {"waiting": {"reason": "ErrImagePull"}}}]}},
    ],
)
def test_pod_that_does_not_name_a_fault_of_its_image_is_none(pod: dict[str, Any]) -> None:
    assert with_pods(NOT_READY, [pod]) == NOT_READY


@pytest.mark.parametrize("containers", ["containerStatuses", "initContainerStatuses"])
def test_fault_of_an_image_names_the_image_up_to_a_length(containers: str) -> None:
    waiting = {"image": "x" * 10_000, "state": {"waiting": {"reason": "InvalidImageName"}}}
    found = with_pods(NOT_READY, [{}, {"status": {containers: [{"state": {}}, waiting]}}])
    assert found.state == "Failed"
    assert found.message.startswith("InvalidImageName: image xxx")
    assert len(found.message) < 300


@pytest.mark.parametrize("state", [{"waiting": {"reason": "CrashLoopBackOff"}}, {"running": {}}])
@pytest.mark.parametrize("before", [NOT_READY, Readiness("Failed", "it has timed out progressing.")])
def test_crash_of_a_container_is_named_and_no_failure_by_itself(state: dict[str, Any], before: Readiness) -> None:
    ended = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    well = {"name": "proxy", "ready": True, "restartCount": 1, "lastState": ended}
    crashed = {"name": "manager", "ready": False, "restartCount": 2, "state": state, "lastState": ended}
    found = with_pods(before, [{"status": {"containerStatuses": [well, crashed]}}])
    crash = "CrashLoopBackOff: container manager ended with exit code 137 (OOMKilled)"
    assert found == Readiness(before.state, f"{before.message.rstrip('.')}: {crash}")
    assert with_pods(before, [{"status": {"containerStatuses": [well]}}]) == before


def test_pods_are_looked_for_by_the_whole_selector_of_a_workload_that_has_some() -> None:
    selector = {"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "b", "operator": "Exists"}]}
    live = {"spec": {"selector": selector}, "status": {"replicas": 1}}
    assert pods_of(DEPLOYMENT, live) == "a=1,b"
    assert pods_of(CONFIG_MAP, live) == ""
    assert pods_of(DEPLOYMENT, {**live, "status": {}}) == ""
    assert pods_of(DEPLOYMENT, {**live, "spec": {"selector": {"matchLabels": 7}}}) == ""
    assert pods_of(DEPLOYMENT, {**live, "spec": {}}) == ""
    assert pods_of(DEPLOYMENT, {**live, "metadata": {"generation": 2}}) == "", "these are of the version before"
