"""The objects of the Watcher in an SKR, as pure functions."""

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from kube_runtime import InventoryEntry
from kyma_certs import KeyPair
from lifecycle_manager.contract.resources import FIELD_MANAGER
from lifecycle_manager.contract.watchers import (
    CANARY_WEBHOOK,
    CATALOG_WEBHOOK,
    DEFAULT_WEBHOOK,
    EVENT_CONTRACT,
    MODULES_WEBHOOK,
    OBJECTS_WEBHOOK,
    manager_of,
    webhook_name_of,
)
from lifecycle_manager.options.watcher import WatcherDeployment, WatcherSettings
from lifecycle_manager.watcher_certificates.tls_secret import encoded, tls_secret_document
from lifecycle_manager_api import ModuleReleaseMeta, ModuleTemplate, Watcher, names

NAME = "skr-webhook"
TLS_SECRET = "skr-webhook-tls"  # noqa: S105 - a name
API_SERVER_CA_FILE = "api-server-ca.crt"
PRIORITY_CLASS = "skr-webhook-priority"
WEBHOOK_PORT = 8443
METRICS_PORT = 2112
LABELS = {"app": NAME}
NO_SIDECAR = {"sidecar.istio.io/inject": "false"}
"""On the Pod: a proxy in front of the webhook would answer the API server with a certificate of its own."""
DNS = ("UDP", "TCP")

# A Pod that has to stop still gets requests, until every node has removed it from its Service. Then it has 5 s to
# answer and 10 s to send its events.
SECONDS_IN_SERVICE = 5
SECONDS_TO_STOP = 30

Document = dict[str, Any]

_APPLIED = (
    "{0}.metadata.?managedFields.orValue([])"
    f'.filter(each, each.manager == "{FIELD_MANAGER}" && each.operation == "Apply" && !has(each.subresource))'
    ".map(each, each.fieldsV1)"
)
CHANGES_WHAT_WAS_APPLIED = (
    f'request.operation == "DELETE" ? "{names.OWNED_BY}" in oldObject.metadata.?annotations.orValue({{}}) : '
    f"{_APPLIED.format('object')} != {_APPLIED.format('oldObject')} || has(oldObject.metadata.deletionTimestamp) && "
    "object.metadata.?finalizers != oldObject.metadata.?finalizers"
)
"""Whether a request deletes an object of a module, or changes a field that the Lifecycle Manager has applied.

Whoever changes such a field takes it from the fields that managedFields name as applied by the Lifecycle Manager. Other
fields belong to others: a status, the replicas that an autoscaler sets, the annotations of controllers.
"""


@dataclass(frozen=True, slots=True, order=True)
class ModuleRule:
    """A kind of Module CR whose changes are reported, by its plural; or its status, by `plural/status`."""

    group: str
    plural: str


@dataclass(frozen=True, slots=True)
class ObjectRules:
    """The kinds of modules' objects whose changes are reported, but for changes by `user`, which is ours.

    The objects of the modules in `left_out` are not reported.
    """

    kinds: tuple[ModuleRule, ...]
    user: str
    left_out: tuple[str, ...] = ()


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


def workload_documents(
    settings: WatcherSettings, certificate: KeyPair, trust: bytes, api_server_ca: bytes | None = None
) -> tuple[Document, ...]:
    """Return the objects that the Watcher needs to run; the webhook is installed once it sends events.

    With `api_server_ca` it answers only clients with a certificate of that CA.
    """
    labels = {names.MANAGED_BY: names.LIFECYCLE_MANAGER, names.WATCHED_BY: "kyma"}
    # No update may change the type of a Secret: a former version had this one.
    secret = tls_secret_document(
        TLS_SECRET, names.SKR_NAMESPACE, certificate, trust=trust, labels=labels, kind="Opaque"
    )
    if api_server_ca is not None:
        secret["data"][API_SERVER_CA_FILE] = encoded(api_server_ca)
    return (
        _priority_class(),
        _document("v1", "ServiceAccount", automountServiceAccountToken=False),
        secret,
        _service(),
        _network_policy(settings.deployment),
        _disruption_budget(),
        _deployment(settings, has_api_server_ca=api_server_ca is not None),
    )


def webhook_document(
    watchers: Iterable[Watcher],
    module_rules: Iterable[ModuleRule],
    trust: bytes,
    *,
    object_rules: ObjectRules | None = None,
) -> Document:
    """Return the ValidatingWebhookConfiguration.

    It has one webhook for each Watcher CR, one for the catalog, one for the canary, one for all Module CRs, and one for
    all objects of modules.

    Without any Watcher CR there is a default one, for changes of the Kyma CR.
    """
    webhook, of_kyma = partial(_webhook, trust), {names.WATCHED_BY: "kyma"}
    from_watchers = [
        webhook(webhook_name_of(each), [_rule_of(each)], each.spec.labels_to_watch, manager=manager_of(each))
        for each in sorted(watchers, key=webhook_name_of)
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
            *([_objects_webhook(trust, object_rules)] if object_rules is not None else []),
        ],
    }


def _objects_webhook(trust: bytes, rules: ObjectRules) -> Document:
    """Return the webhook for objects of modules: each has our labels, which the Watcher's own objects lack."""
    expressions: list[Document] = [{"key": names.MODULE_NAME, "operator": "Exists"}]
    if rules.left_out:
        expressions.append({"key": names.MODULE_NAME, "operator": "NotIn", "values": list(rules.left_out)})
    changed = [_rule(each.group, "*", each.plural) | {"operations": ["UPDATE", "DELETE"]} for each in rules.kinds]
    webhook = _webhook(trust, OBJECTS_WEBHOOK, changed, {names.MANAGED_BY: names.LIFECYCLE_MANAGER})
    selector = {**webhook["objectSelector"], "matchExpressions": expressions}
    # A text of printable ASCII in JSON is one in CEL.
    by_others = f"request.userInfo.username != {json.dumps(rules.user)}"
    conditions = [
        {"name": "by-others", "expression": by_others},
        {"name": "changes-what-was-applied", "expression": CHANGES_WHAT_WAS_APPLIED},
    ]
    return {**webhook, "objectSelector": selector, "matchConditions": conditions}


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
    ports = [int(settings.kcp_address.rpartition(":")[2]), *_port_of_collector(settings)]
    spec = {
        "podSelector": {"matchLabels": LABELS},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"ports": [{"port": number, "protocol": "TCP"}]} for number in (WEBHOOK_PORT, METRICS_PORT)],
        "egress": [
            {"ports": [{"port": port, "protocol": "TCP"} for port in ports]},
            {"ports": [{"port": number, "protocol": protocol} for number in (53, 8053) for protocol in DNS]},
        ],
    }
    return _document("networking.k8s.io/v1", "NetworkPolicy", spec=spec)


def _port_of_collector(settings: WatcherDeployment) -> tuple[int, ...]:
    if not settings.otlp_endpoint:
        return ()
    url = urlsplit(settings.otlp_endpoint)
    return (url.port or (443 if url.scheme == "https" else 80),)


def _disruption_budget() -> Document:
    """Have nodes drained one Watcher at a time. A single one may be evicted: it requests a resync when it starts."""
    spec = {
        "maxUnavailable": 1,
        "selector": {"matchLabels": LABELS},
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
    }
    return _document("policy/v1", "PodDisruptionBudget", spec=spec)


def _deployment(settings: WatcherSettings, *, has_api_server_ca: bool) -> Document:
    deployment = settings.deployment
    pod: Document = {
        "serviceAccountName": NAME,
        "automountServiceAccountToken": False,
        "priorityClassName": PRIORITY_CLASS,
        "terminationGracePeriodSeconds": SECONDS_TO_STOP,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 10001,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(settings, has_api_server_ca=has_api_server_ca)],
        "volumes": [{"name": "tls", "secret": {"secretName": TLS_SECRET}}],
    }
    if deployment.pull_secret:
        pod["imagePullSecrets"] = [{"name": deployment.pull_secret}]
    spec = {
        "replicas": deployment.replicas,
        "selector": {"matchLabels": LABELS},
        "template": {"metadata": {"labels": LABELS | NO_SIDECAR}, "spec": pod},
    }
    return _document("apps/v1", "Deployment", spec=spec)


def _container(settings: WatcherSettings, *, has_api_server_ca: bool) -> Document:
    deployment = settings.deployment
    api_server_ca = {"name": "API_SERVER_CA", "value": f"/tls/{API_SERVER_CA_FILE}"}
    return {
        "name": "server",
        "image": deployment.image,
        "env": [
            {"name": "WEBHOOK_PORT", "value": str(WEBHOOK_PORT)},
            {"name": "METRICS_PORT", "value": str(METRICS_PORT)},
            {"name": "TLS_CERT", "value": "/tls/tls.crt"},
            {"name": "TLS_KEY", "value": "/tls/tls.key"},
            {"name": "CA_CERT", "value": "/tls/ca.crt"},
            {"name": "KCP_ADDR", "value": deployment.kcp_address},
            {"name": "KCP_CONTRACT", "value": EVENT_CONTRACT},
            {"name": "HEARTBEAT_SECONDS", "value": f"{settings.times.heartbeat:g}"},
            *([api_server_ca] if has_api_server_ca else []),
            *(_traces(deployment) if deployment.otlp_endpoint else []),
            *([{"name": "FIPS_ONLY", "value": "true"}] if deployment.fips_only else []),
        ],
        "ports": [
            {"name": "webhook", "containerPort": WEBHOOK_PORT, "protocol": "TCP"},
            {"name": "metrics", "containerPort": METRICS_PORT, "protocol": "TCP"},
        ],
        "lifecycle": {"preStop": {"sleep": {"seconds": SECONDS_IN_SERVICE}}},
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "metrics"}},
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "metrics"}, "periodSeconds": 2},
        "resources": {
            "limits": {"memory": deployment.memory_limit, "cpu": deployment.cpu_limit},
            "requests": {"memory": "64Mi", "cpu": "20m"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "tls", "mountPath": "/tls", "readOnly": True}],
    }


def _traces(settings: WatcherDeployment) -> list[Document]:
    return [
        {"name": "OTLP_ENDPOINT", "value": settings.otlp_endpoint},
        {"name": "TRACE_SAMPLING_RATIO", "value": f"{settings.trace_sampling_ratio:g}"},
    ]


def _document(api_version: str, kind: str, **content: Any) -> Document:
    metadata = {"name": NAME, "namespace": names.SKR_NAMESPACE, "labels": LABELS}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}
