"""ModuleRollouts as a control plane records them: a halted one of two waves, and others."""

from typing import Any

import msgspec

from lifecycle_manager_api import ModuleRollout

TIME = "2026-11-22T10:00:00Z"
CANARY = {"name": "canary", "clusters": 5, "healthy": 5, "startedAt": TIME, "settledAt": TIME, "completedAt": TIME}
STOPPED = {
    "name": "europe",
    "clusters": 40,
    "healthy": 15,
    "soaking": 5,
    "underWay": 4,
    "failed": 2,
    "unreachable": 1,
    "held": 3,
    "waiting": 10,
    "startedAt": TIME,
}
LATER = {"name": "remaining", "clusters": 100, "waiting": 100}


def rollout(
    module: str = "api-gateway",
    *,
    revision: int = 2,
    phase: str = "Halted",
    failed: dict[str, str] | None = None,
    resource_version: str = "1",
    **given: Any,
) -> ModuleRollout:
    """Return a rollout; `failed` are causes by the name of the Kyma, the first failure first."""
    failures = {"kyma-00007": "Infrastructure default: no route"} if failed is None else failed
    spec = {
        "moduleName": module,
        "channel": "regular",
        "version": f"1.{revision}.0",
        "formerVersion": f"1.{revision - 1}.0",
        "revision": revision,
        "strategy": {"waves": [{"name": "canary", "kymaSelector": {}}, {"name": "europe", "kymaSelector": {}}]},
        **given.pop("spec", {}),
    }
    status = {
        "phase": phase,
        "wave": "europe",
        "message": "2 of 40 clusters of wave europe failed" if phase == "Halted" else "waiting for wave europe",
        "clusters": 145,
        "updated": 25,
        "failed": len(failures) + 1 if failures else 0,
        "waves": [CANARY, STOPPED, LATER],
        "failedClusters": [
            {"kyma": kyma, "wave": "europe", "reason": "ObjectsNotReady", "message": message}
            for kyma, message in failures.items()
        ],
        "startedAt": TIME,
        "expectedEnd": None if phase in {"Halted", "Completed"} else "2026-11-22T12:30:00Z",
        "completedAt": TIME if phase == "Completed" else None,
        **given,
    }
    metadata = {"name": f"{module}-regular-{revision}", "namespace": "kcp-system", "resourceVersion": resource_version}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, ModuleRollout)
