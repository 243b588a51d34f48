"""Kinds of Kubernetes that the tests read and write as documents."""

from typing import Any

from kube_runtime import Resource

CONFIG_MAPS: Resource[dict[str, Any]] = Resource.dynamic("", "v1", "ConfigMap", "configmaps", namespaced=True)
NAMESPACES: Resource[dict[str, Any]] = Resource.dynamic("", "v1", "Namespace", "namespaces", namespaced=False)
PODS: Resource[dict[str, Any]] = Resource.dynamic("", "v1", "Pod", "pods", namespaced=True)
SECRETS: Resource[dict[str, Any]] = Resource.dynamic("", "v1", "Secret", "secrets", namespaced=True)
SERVICES: Resource[dict[str, Any]] = Resource.dynamic("", "v1", "Service", "services", namespaced=True)
SERVICE_ACCOUNTS: Resource[dict[str, Any]] = Resource.dynamic(
    "", "v1", "ServiceAccount", "serviceaccounts", namespaced=True
)
DEPLOYMENTS: Resource[dict[str, Any]] = Resource.dynamic("apps", "v1", "Deployment", "deployments", namespaced=True)
EVENTS: Resource[dict[str, Any]] = Resource.dynamic("events.k8s.io", "v1", "Event", "events", namespaced=True)
CRDS: Resource[dict[str, Any]] = Resource.dynamic(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
)
CLUSTER_ROLES: Resource[dict[str, Any]] = Resource.dynamic(
    "rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False
)
CLUSTER_ROLE_BINDINGS: Resource[dict[str, Any]] = Resource.dynamic(
    "rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False
)
ROLES: Resource[dict[str, Any]] = Resource.dynamic("rbac.authorization.k8s.io", "v1", "Role", "roles", namespaced=True)
ROLE_BINDINGS: Resource[dict[str, Any]] = Resource.dynamic(
    "rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings", namespaced=True
)
WEBHOOKS: Resource[dict[str, Any]] = Resource.dynamic(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    namespaced=False,
)
MUTATING_WEBHOOKS: Resource[dict[str, Any]] = Resource.dynamic(
    "admissionregistration.k8s.io",
    "v1",
    "MutatingWebhookConfiguration",
    "mutatingwebhookconfigurations",
    namespaced=False,
)
NETWORK_POLICIES: Resource[dict[str, Any]] = Resource.dynamic(
    "networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", namespaced=True
)
INFRASTRUCTURES: Resource[dict[str, Any]] = Resource.dynamic(
    "cloud-resources.kyma-project.io", "v1beta1", "Infrastructure", "infrastructures", namespaced=True
)
KEDAS: Resource[dict[str, Any]] = Resource.dynamic(
    "operator.kyma-project.io", "v1alpha1", "Keda", "kedas", namespaced=True
)
TELEMETRIES: Resource[dict[str, Any]] = Resource.dynamic(
    "operator.kyma-project.io", "v1beta1", "Telemetry", "telemetries", namespaced=True
)
OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
"""The schema of an object of which no field is checked."""


def crd_of(
    group: str,
    kind: str,
    *served: str,
    stored: str = "v1",
    scope: str = "Namespaced",
    plural: str = "",
    schema: dict[str, Any] = OPEN,
    has_status: bool = False,
) -> dict[str, Any]:
    """Return the CustomResourceDefinition of a kind, which is served in these versions, or in the stored one."""
    plural = plural or f"{kind.lower()}s"
    served = served or (stored,)
    version = {"schema": {"openAPIV3Schema": schema}} | ({"subresources": {"status": {}}} if has_status else {})
    versions = [
        {"name": each, "served": each in served, "storage": each == stored, **version}
        for each in sorted({*served, stored})
    ]
    called = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    return {
        "apiVersion": CRDS.api_version,
        "kind": CRDS.kind,
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": scope, "names": called, "versions": versions},
    }
