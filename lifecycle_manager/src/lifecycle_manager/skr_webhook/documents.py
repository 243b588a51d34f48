"""The objects of the Watcher in an SKR, as pure functions."""

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
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
NO_SIDECAR = {"sidecar.istio.io/inject": "false"}
"""On the Pod: a proxy in front of the webhook would answer the API server with a certificate of its own."""
DNS = ("UDP", "TCP")
CONTRACT = "v2"
DEFAULT_WEBHOOK = f"{names.KCP_NAMESPACE}.{names.LIFECYCLE_MANAGER}.{names.GROUP}"
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
    # No update may change the type of a Secret: a former version had this one.
    return (
        _priority_class(),
        _document("v1", "ServiceAccount", automountServiceAccountToken=False),
        tls_secret_document(TLS_SECRET, names.SKR_NAMESPACE, certificate, trust=trust, labels=labels, kind="Opaque"),
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
    webhook, of_kyma = partial(_webhook, trust), {names.WATCHED_BY: "kyma"}
    from_watchers = [
        webhook(name_of(each), [_rule_of(each)], each.spec.labels_to_watch, manager=manager_of(each))
        for each in sorted(watchers, key=_watcher_name)
    ]
    catalog = [_rule(names.GROUP, "*", kind.PLURAL) for kind in (ModuleTemplate, ModuleReleaseMeta)]
    canary = _rule("", "v1", "serviceaccounts") | {"operations": ["UPDATE"], "scope": "Namespaced"}
    modules = [_rule(rule.group, "*", rule.plural) for rule in sorted(set(module_rules))]
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": NAME, "labels": {names.MANAGED_BY: names.LIFECYCLE_MANAGER}},
        "webhooks": [
            *(from_watchers or [webhook(DEFAULT_WEBHOOK, [_rule(names.GROUP, "*", "kymas")], of_kyma)]),
            # Edits of LM's objects are reported, so that they are reverted at once.
            webhook(CATALOG_WEBHOOK, catalog, of_kyma),
            # LM's own changes of the Watcher's ServiceAccount test the event path.
            webhook(CANARY_WEBHOOK, [canary], LABELS)
            | {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": names.SKR_NAMESPACE}}},
            *([webhook(MODULES_WEBHOOK, modules, {})] if modules else []),
        ],
    }


def name_of(watcher: Watcher) -> str:
    """Return the name of the webhook of a Watcher CR."""
    return f"{watcher.metadata.namespace}.{watcher.metadata.name}.{names.GROUP}"


def _rule_of(watcher: Watcher) -> Document:
    watched = watcher.spec.resource_to_watch
    plural = watched.resource if watcher.spec.field == "spec" else f"{watched.resource}/status"
    return _rule(watched.group, watched.version, plural)


def _webhook(
    trust: bytes,
    name: str,
    rules: list[Document],
    selector: Mapping[str, str],
    *,
    manager: str = names.LIFECYCLE_MANAGER,
) -> Document:
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
        "value": 1_000_000_000,  # no update may change it: a former version had this one
        "globalDefault": False,
        "description": "The Kyma Watcher, which reports changes in this cluster to the control plane.",
    }


def _service() -> Document:
    port = {"name": "webhook", "port": 443, "protocol": "TCP", "targetPort": WEBHOOK_PORT}
    return _document("v1", "Service", spec={"selector": LABELS, "ports": [port]})


def _network_policy(settings: WatcherDeployment) -> Document:
    """Allow requests to the Watcher and its metrics, and from it to KCP and DNS; nothing else.

    The addresses of the API server and of KCP are not known here, so only ports are restricted.
    """
    port = int(settings.kcp_address.rpartition(":")[2])
    spec = {
        "podSelector": {"matchLabels": LABELS},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"ports": [{"port": number, "protocol": "TCP"}]} for number in (WEBHOOK_PORT, METRICS_PORT)],
        "egress": [
            {"ports": [{"port": port, "protocol": "TCP"}]},
            {"ports": [{"port": number, "protocol": protocol} for number in (53, 8053) for protocol in DNS]},
        ],
    }
    return _document("networking.k8s.io/v1", "NetworkPolicy", spec=spec)


def _disruption_budget() -> Document:
    """Have nodes drained one Watcher at a time. A single one may be evicted: it requests a resync when it starts."""
    spec = {
        "maxUnavailable": 1,
        "selector": {"matchLabels": LABELS},
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
    }
    return _document("policy/v1", "PodDisruptionBudget", spec=spec)


def _deployment(settings: WatcherDeployment) -> Document:
    pod = {
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
    }
    spec = {
        "replicas": settings.replicas,
        "selector": {"matchLabels": LABELS},
        "template": {"metadata": {"labels": LABELS | NO_SIDECAR}, "spec": pod},
    }
    return _document("apps/v1", "Deployment", spec=spec)


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


def _document(api_version: str, kind: str, **content: Any) -> Document:
    metadata = {"name": NAME, "namespace": names.SKR_NAMESPACE, "labels": LABELS}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}


def _watcher_name(watcher: Watcher) -> tuple[str, str]:
    return (watcher.metadata.namespace or "", watcher.metadata.name)
