"""AdmissionReviews as an API server sends them for an object of 2.5 kB: 6 kB with both versions."""

from typing import Any

import msgspec


def review(name: str, *, changed: bool) -> bytes:
    """Return the review of an update that changes the spec, or only fields that the API server maintains."""
    old, new = _kyma(name, 1, "7"), _kyma(name, 2 if changed else 1, "8")
    request: dict[str, Any] = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": "operator.kyma-project.io", "version": "v1beta2", "kind": "Kyma"},
        "resource": {"group": "operator.kyma-project.io", "version": "v1beta2", "resource": "kymas"},
        "name": name,
        "namespace": "kyma-system",
        "operation": "UPDATE",
        "userInfo": {"username": "admin", "groups": ["system:masters", "system:authenticated"]},
        "object": new,
        "oldObject": old,
        "dryRun": False,
        "options": {"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    return msgspec.json.encode({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request})


def _kyma(name: str, version: int, resource_version: str) -> dict[str, Any]:
    fields: dict[str, Any] = {f"f:module-{number}": {"f:channel": {}, "f:name": {}} for number in range(20)}
    return {
        "apiVersion": "operator.kyma-project.io/v1beta2",
        "kind": "Kyma",
        "metadata": {
            "name": name,
            "namespace": "kyma-system",
            "uid": "f3a1d0a2-1111-4c5b-9c7e-000000000001",
            "resourceVersion": resource_version,
            "generation": version,
            "creationTimestamp": "2026-11-01T12:00:00Z",
            "labels": {"operator.kyma-project.io/watched-by": "kyma", "app.kubernetes.io/part-of": "kyma"},
            "annotations": {"a-note": "x" * 100},
            "managedFields": [
                {
                    "manager": "kubectl-client-side-apply",
                    "operation": "Update",
                    "time": "2026-11-01T12:00:00Z",
                    "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:spec": fields},
                }
            ],
        },
        "spec": {
            "channel": "regular",
            "modules": [{"name": f"module-{number}", "channel": "fast", "of": version} for number in range(20)],
        },
        "status": {"state": "Ready", "conditions": []},
    }
