"""The ValidatingWebhookConfiguration: one webhook for each resource that is validated."""

import base64
from typing import Any

from kube_runtime import Resource
from lifecycle_manager_api import ModuleReleaseMeta, ModuleTemplate, SyncResource, names
from lifecycle_manager_api.kinds import ApiObject

ADMISSION_WEBHOOKS: Resource[dict[str, Any]] = Resource.dynamic(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    namespaced=False,
)
NAME = "lifecycle-manager"
PORT = 443
TIMEOUT_SECONDS = 5
VALIDATED: tuple[type[ApiObject], ...] = (SyncResource, ModuleTemplate, ModuleReleaseMeta)
# Changes of finalizers and labels are not validated, and need not wait for an answer.
SPEC_CHANGES = "request.operation == 'CREATE' || object.spec != oldObject.spec"


def webhook_configuration(service: str, namespace: str, trust: bytes) -> dict[str, Any]:
    """Return the configuration; `service` serves the endpoint with a certificate of the CAs in `trust`."""
    return {
        "apiVersion": ADMISSION_WEBHOOKS.api_version,
        "kind": ADMISSION_WEBHOOKS.kind,
        "metadata": {"name": NAME, "labels": {names.MANAGED_BY: names.LIFECYCLE_MANAGER}},
        "webhooks": [_webhook(kind, service, namespace, trust) for kind in VALIDATED],
    }


def _webhook(kind: type[ApiObject], service: str, namespace: str, trust: bytes) -> dict[str, Any]:
    return {
        "name": f"{kind.PLURAL}.{names.GROUP}",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {
            "service": {"name": service, "namespace": namespace, "path": f"/validate/{kind.PLURAL}", "port": PORT},
            "caBundle": base64.b64encode(trust).decode(),
        },
        "rules": [
            {
                "apiGroups": [kind.GROUP],
                "apiVersions": [kind.VERSION],
                "resources": [kind.PLURAL],
                "operations": ["CREATE", "UPDATE"],
                "scope": "Namespaced",
            }
        ],
        "matchConditions": [{"name": "spec-changes", "expression": SPEC_CHANGES}],
        "matchPolicy": "Equivalent",
        "failurePolicy": "Ignore",
        "sideEffects": "None",
        "timeoutSeconds": TIMEOUT_SECONDS,
    }
