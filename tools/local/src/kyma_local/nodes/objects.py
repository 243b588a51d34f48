"""The objects that every cluster with a node has: the address of its API server, and CoreDNS."""

from typing import Any

from kyma_local.nodes.images import image_name
from kyma_local.nodes.network import API_SERVER_PORT
from kyma_local.nodes.settings import DNS_ADDRESS, DNS_DOMAIN

NAMESPACE = "kube-system"
DNS = "coredns"
DNS_PORT = 8053  # no capability is needed for it
LABELS = {"k8s-app": "kube-dns"}


def system_objects(address: str) -> tuple[dict[str, Any], ...]:
    """Return the objects for a cluster whose API server is reached at an address."""
    return (
        _api_server(address),
        _node_proxier(),
        *_policies_rights(),
        *_dns_rights(),
        _corefile(),
        _dns_service(),
        _dns_deployment(),
    )


def _api_server(address: str) -> dict[str, Any]:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"kubernetes.io/service-name": "kubernetes"},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": [{"name": "https", "port": API_SERVER_PORT, "protocol": "TCP"}],
    }


def _node_proxier() -> dict[str, Any]:
    return _binding("kube-proxy", "system:node-proxier", {"kind": "User", "name": "kube-proxy"})


def _policies_rights() -> tuple[dict[str, Any], ...]:
    name, reading = "network-policies", {"verbs": ["get", "list", "watch"]}
    return (
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": [
                {"apiGroups": [""], "resources": ["nodes", "pods", "namespaces"], **reading},
                {"apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies"], **reading},
            ],
        },
        _binding(name, name, {"kind": "User", "name": name}),
    )


def _binding(name: str, role: str, subject: dict[str, Any]) -> dict[str, Any]:
    group = {} if subject["kind"] == "ServiceAccount" else {"apiGroup": "rbac.authorization.k8s.io"}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{**subject, **group}],
    }


def _dns_rights() -> tuple[dict[str, Any], ...]:
    metadata = {"name": DNS, "namespace": NAMESPACE}
    reading = {"verbs": ["list", "watch"]}
    return (
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": DNS},
            "rules": [
                {"apiGroups": [""], "resources": ["services", "namespaces"], **reading},
                {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], **reading},
            ],
        },
        _binding(DNS, DNS, {"kind": "ServiceAccount", **metadata}),
    )


def _corefile() -> dict[str, Any]:
    corefile = (
        f".:{DNS_PORT} {{\n  errors\n  health\n  ready\n"
        f"  kubernetes {DNS_DOMAIN} in-addr.arpa ip6.arpa {{\n    ttl 5\n  }}\n  cache 5\n}}\n"
    )
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": DNS, "namespace": NAMESPACE},
        "data": {"Corefile": corefile},
    }


def _dns_service() -> dict[str, Any]:
    ports = [
        {"name": name, "port": 53, "targetPort": DNS_PORT, "protocol": protocol}
        for name, protocol in (("dns", "UDP"), ("dns-tcp", "TCP"))
    ]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "kube-dns", "namespace": NAMESPACE, "labels": LABELS},
        "spec": {"clusterIP": DNS_ADDRESS, "selector": LABELS, "ports": ports},
    }


def _dns_deployment() -> dict[str, Any]:
    container = {
        "name": DNS,
        "image": image_name(DNS),
        "imagePullPolicy": "Never",
        "args": ["-conf", "/etc/coredns/Corefile"],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}, "periodSeconds": 1},
        "livenessProbe": {"httpGet": {"path": "/health", "port": 8080}},
        "resources": {"requests": {"cpu": "10m", "memory": "40Mi"}, "limits": {"memory": "170Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "config", "mountPath": "/etc/coredns", "readOnly": True}],
    }
    pod = {
        "serviceAccountName": DNS,
        "priorityClassName": "system-cluster-critical",
        "dnsPolicy": "Default",
        "securityContext": {"runAsNonRoot": True, "runAsUser": 10001, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
        "volumes": [{"name": "config", "configMap": {"name": DNS}}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": DNS, "namespace": NAMESPACE, "labels": LABELS},
        "spec": {
            "selector": {"matchLabels": LABELS},
            "template": {"metadata": {"labels": LABELS}, "spec": pod},
        },
    }
