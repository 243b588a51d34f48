"""The ValidatingWebhookConfiguration: one webhook for each resource that is validated."""

import base64
from typing import Any, NamedTuple

from kube_runtime import Resource
from lifecycle_manager_api import ModulePolicy, ModuleReleaseMeta, ModuleTemplate, SyncResource, names
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


class Validated(NamedTuple):
    """Which writes of a resource are validated. The others need not wait for an answer."""

    kind: type[ApiObject]
    operations: tuple[str, ...] = ("CREATE", "UPDATE")
    condition: str = "request.operation == 'CREATE' || object.spec != oldObject.spec"
    """Changes of finalizers and labels are not validated."""


VALIDATED = (
    Validated(SyncResource),
    Validated(ModuleTemplate),
    Validated(ModuleReleaseMeta),
    Validated(
        ModulePolicy,
        ("CREATE", "DELETE"),
        f"(request.operation == 'CREATE' ? object : oldObject).spec.controlPlaneNamespace != '{names.KCP_NAMESPACE}'",
    ),
)


def webhook_configuration(service: str, namespace: str, trust: bytes) -> dict[str, Any]:
    """Return the configuration; `service` serves the endpoint with a certificate of the CAs in `trust`."""
    return {
        "apiVersion": ADMISSION_WEBHOOKS.api_version,
        "kind": ADMISSION_WEBHOOKS.kind,
        "metadata": {"name": NAME, "labels": {names.MANAGED_BY: names.LIFECYCLE_MANAGER}},
        "webhooks": [_webhook(each, service, namespace, trust) for each in VALIDATED],
    }


def _webhook(validated: Validated, service: str, namespace: str, trust: bytes) -> dict[str, Any]:
    kind = validated.kind
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
                "operations": list(validated.operations),
                "scope": "Namespaced",
            }
        ],
        "namespaceSelector": {},
        "objectSelector": {},
        "matchConditions": [{"name": "concerned", "expression": validated.condition}],
        "matchPolicy": "Equivalent",
        "failurePolicy": "Ignore",
        "sideEffects": "None",
        "timeoutSeconds": TIMEOUT_SECONDS,
    }
