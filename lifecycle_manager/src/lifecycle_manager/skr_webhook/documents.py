"""The objects of the Watcher in an SKR, as pure functions."""

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kube_runtime import InventoryEntry
from kyma_certs import KeyPair
from lifecycle_manager.skr.watcher import manager_of
from lifecycle_manager.skr_webhook.tls_secret import tls_secret_document
from lifecycle_manager_api import ModuleReleaseMeta, ModuleTemplate, Watcher, names

NAME = "skr-webhook"
TLS_SECRET = "skr-webhook-tls"  # noqa: S105 - a name
PRIORITY_CLASS = "skr-webhook-priority"
WEBHOOK_PORT = 8443
METRICS_PORT = 2112
LABELS = {"app": NAME}
DNS = ("UDP", "TCP")
CONTRACT = "v2"
CATALOG_WEBHOOK = f"{names.KCP_NAMESPACE}.module-catalog.{names.GROUP}"
CANARY_WEBHOOK = f"{names.KCP_NAMESPACE}.canary.{names.GROUP}"
MODULES_WEBHOOK = f"{names.KCP_NAMESPACE}.module-configs.{names.GROUP}"
OUR_WEBHOOKS = frozenset({CATALOG_WEBHOOK, CANARY_WEBHOOK, MODULES_WEBHOOK})
"""The names of the webhooks that are not made from a Watcher CR."""

# A Pod that has to stop still gets requests, until every node has removed it from its Service. Then it has 5 s to
# answer and 10 s to send its events.
SECONDS_IN_SERVICE = 5
SECONDS_TO_STOP = 30

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class WatcherDeployment:
    """How the Watcher runs in every SKR. `kcp_address` is host:port of the event endpoint."""

    image: str = "skr-watcher:latest"
    kcp_address: str = "localhost:8082"
    memory_limit: str = "200Mi"
    cpu_limit: str = "0.1"
    replicas: int = 1


@dataclass(frozen=True, slots=True, order=True)
class ModuleRule:
    """A kind of Module CR whose changes are reported, by its plural; or its status, by `plural/status`."""

    group: str
    plural: str


INVENTORY = (
    InventoryEntry("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration", "", NAME),
    InventoryEntry("apps", "v1", "Deployment", names.SKR_NAMESPACE, NAME),
    InventoryEntry("", "v1", "Service", names.SKR_NAMESPACE, NAME),
    InventoryEntry("", "v1", "ServiceAccount", names.SKR_NAMESPACE, NAME),
    InventoryEntry("", "v1", "Secret", names.SKR_NAMESPACE, TLS_SECRET),
    InventoryEntry("scheduling.k8s.io", "v1", "PriorityClass", "", PRIORITY_CLASS),
    InventoryEntry("networking.k8s.io", "v1", "NetworkPolicy", names.SKR_NAMESPACE, NAME),
    InventoryEntry("policy", "v1", "PodDisruptionBudget", names.SKR_NAMESPACE, NAME),
)
"""All objects that any revision installs: those that a removal deletes."""


def workload_documents(settings: WatcherDeployment, certificate: KeyPair, trust: bytes) -> tuple[Document, ...]:
    """Return the objects that the Watcher needs to run; the webhook is installed once it sends events."""
    labels = {names.MANAGED_BY: names.LIFECYCLE_MANAGER, names.WATCHED_BY: "kyma"}
    return (
        _priority_class(),
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _metadata(NAME)}
        | {"automountServiceAccountToken": False},
        tls_secret_document(TLS_SECRET, names.SKR_NAMESPACE, certificate, trust=trust, labels=labels),
        _service(),
        _network_policy(settings),
        _disruption_budget(),
        _deployment(settings),
    )


def webhook_document(watchers: Iterable[Watcher], module_rules: Iterable[ModuleRule], trust: bytes) -> Document:
    """Return the ValidatingWebhookConfiguration.

    It has one webhook for each Watcher CR, one for the catalog, one for the canary, and one for all Module CRs.

    Without any Watcher CR there is a default one, for changes of the Kyma CR.
    """
    from_watchers = [_webhook_of(watcher, trust) for watcher in sorted(watchers, key=_watcher_name)]
    rules = sorted(set(module_rules))
    modules = [_module_webhook(rules, trust)] if rules else []
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": NAME, "labels": {names.MANAGED_BY: names.LIFECYCLE_MANAGER}},
        "webhooks": [
            *(from_watchers or [_default_webhook(trust)]),
            _catalog_webhook(trust),
            _canary_webhook(trust),
            *modules,
        ],
    }


def name_of(watcher: Watcher) -> str:
    """Return the name of the webhook of a Watcher CR."""
    return f"{watcher.metadata.namespace}.{watcher.metadata.name}.{names.GROUP}"


def _default_webhook(trust: bytes) -> Document:
    rule = _rule(names.GROUP, "*", "kymas")
    selector = {names.WATCHED_BY: "kyma"}
    name = f"{names.KCP_NAMESPACE}.{names.LIFECYCLE_MANAGER}.{names.GROUP}"
    return _webhook(name, names.LIFECYCLE_MANAGER, [rule], selector, trust)


def _webhook_of(watcher: Watcher, trust: bytes) -> Document:
    manager = manager_of(watcher)
    watched = watcher.spec.resource_to_watch
    plural = watched.resource if watcher.spec.field == "spec" else f"{watched.resource}/status"
    rule = _rule(watched.group, watched.version, plural)
    return _webhook(name_of(watcher), manager, [rule], watcher.spec.labels_to_watch, trust)


def _catalog_webhook(trust: bytes) -> Document:
    """Report edits of the objects of LM in the catalog, so that they are reverted at once."""
    rules = [_rule(names.GROUP, "*", kind.PLURAL) for kind in (ModuleTemplate, ModuleReleaseMeta)]
    return _webhook(CATALOG_WEBHOOK, names.LIFECYCLE_MANAGER, rules, {names.WATCHED_BY: "kyma"}, trust)


def _canary_webhook(trust: bytes) -> Document:
    """Report LM's own changes of the Watcher's ServiceAccount, which test the event path."""
    rule = _rule("", "v1", "serviceaccounts") | {"operations": ["UPDATE"], "scope": "Namespaced"}
    webhook = _webhook(CANARY_WEBHOOK, names.LIFECYCLE_MANAGER, [rule], LABELS, trust)
    namespace = {"matchLabels": {"kubernetes.io/metadata.name": names.SKR_NAMESPACE}}
    return webhook | {"namespaceSelector": namespace}


def _module_webhook(rules: Iterable[ModuleRule], trust: bytes) -> Document:
    entries = [_rule(rule.group, "*", rule.plural) for rule in rules]
    return _webhook(MODULES_WEBHOOK, names.LIFECYCLE_MANAGER, entries, {}, trust)


def _webhook(name: str, manager: str, rules: list[Document], selector: Mapping[str, str], trust: bytes) -> Document:
    service = {"namespace": names.SKR_NAMESPACE, "name": NAME, "path": f"/validate/{manager}", "port": 443}
    return {
        "name": name,
        "clientConfig": {"service": service, "caBundle": base64.b64encode(trust).decode()},
        "rules": rules,
        "objectSelector": {"matchLabels": dict(selector)} if selector else {},
        "failurePolicy": "Ignore",
        "matchPolicy": "Equivalent",
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": 2,
        "admissionReviewVersions": ["v1"],
    }


def _rule(group: str, version: str, plural: str) -> Document:
    return {
        "apiGroups": [group],
        "apiVersions": [version],
        "resources": [plural],
        "operations": ["CREATE", "UPDATE", "DELETE"],
        "scope": "*",
    }


def _priority_class() -> Document:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": PRIORITY_CLASS},
        "value": 2_000_000,
        "globalDefault": False,
        "description": "The Kyma Watcher, which reports changes in this cluster to the control plane.",
    }


def _service() -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(NAME),
        "spec": {
            "selector": {"app": NAME},
            "ports": [{"name": "webhook", "port": 443, "protocol": "TCP", "targetPort": WEBHOOK_PORT}],
        },
    }


def _network_policy(settings: WatcherDeployment) -> Document:
    """Allow requests to the Watcher and its metrics, and from it to KCP and DNS; nothing else.

    The addresses of the API server and of KCP are not known here, so only ports are restricted.
    """
    port = int(settings.kcp_address.rpartition(":")[2])
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": _metadata(NAME),
        "spec": {
            "podSelector": {"matchLabels": LABELS},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [
                {"ports": [{"port": WEBHOOK_PORT, "protocol": "TCP"}]},
                {"ports": [{"port": METRICS_PORT, "protocol": "TCP"}]},
            ],
            "egress": [
                {"ports": [{"port": port, "protocol": "TCP"}]},
                {"ports": [{"port": number, "protocol": protocol} for number in (53, 8053) for protocol in DNS]},
            ],
        },
    }


def _disruption_budget() -> Document:
    """Have nodes drained one Watcher at a time. A single one may be evicted: it requests a resync when it starts."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": _metadata(NAME),
        "spec": {
            "maxUnavailable": 1,
            "selector": {"matchLabels": LABELS},
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }


def _deployment(settings: WatcherDeployment) -> Document:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(NAME),
        "spec": {
            "replicas": settings.replicas,
            "selector": {"matchLabels": {"app": NAME}},
            "template": {
                "metadata": {"labels": {"app": NAME}},
                "spec": {
                    "serviceAccountName": NAME,
                    "automountServiceAccountToken": False,
                    "priorityClassName": PRIORITY_CLASS,
                    "terminationGracePeriodSeconds": SECONDS_TO_STOP,
                    "securityContext": {
                        "runAsNonRoot": True,
                        "runAsUser": 10001,
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                    "containers": [_container(settings)],
                    "volumes": [{"name": "tls", "secret": {"secretName": TLS_SECRET}}],
                },
            },
        },
    }


def _container(settings: WatcherDeployment) -> Document:
    return {
        "name": "server",
        "image": settings.image,
        "env": [
            {"name": "WEBHOOK_PORT", "value": str(WEBHOOK_PORT)},
            {"name": "METRICS_PORT", "value": str(METRICS_PORT)},
            {"name": "TLS_CERT", "value": "/tls/tls.crt"},
            {"name": "TLS_KEY", "value": "/tls/tls.key"},
            {"name": "CA_CERT", "value": "/tls/ca.crt"},
            {"name": "KCP_ADDR", "value": settings.kcp_address},
            {"name": "KCP_CONTRACT", "value": CONTRACT},
        ],
        "ports": [
            {"name": "webhook", "containerPort": WEBHOOK_PORT, "protocol": "TCP"},
            {"name": "metrics", "containerPort": METRICS_PORT, "protocol": "TCP"},
        ],
        "lifecycle": {"preStop": {"sleep": {"seconds": SECONDS_IN_SERVICE}}},
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "metrics"}},
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "metrics"}},
        "resources": {
            "limits": {"memory": settings.memory_limit, "cpu": settings.cpu_limit},
            "requests": {"memory": "64Mi", "cpu": "20m"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "tls", "mountPath": "/tls", "readOnly": True}],
    }


def _metadata(name: str) -> Document:
    return {"name": name, "namespace": names.SKR_NAMESPACE, "labels": {"app": NAME}}


def _watcher_name(watcher: Watcher) -> tuple[str, str]:
    return (watcher.metadata.namespace or "", watcher.metadata.name)
