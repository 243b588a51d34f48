"""Draws valid documents of many kinds. Of one name, each draw may be a new version of the object before."""

import base64
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.real_modules.definitions import DEFINITION_KINDS
from tests.real_modules.pods import maybe, pod_template, some

Document = dict[str, Any]
RBAC = "rbac.authorization.k8s.io"
VALUES = ("", "x", "1", "true", "1e3", "0o644", "a\nb\n", "a: b", "é\U0001f600", "2026-01-01", "~")
Content = Callable[[random.Random, str], Document]


@dataclass(frozen=True)
class Kind:
    """A kind; `content` draws what an object of a name has beside its metadata."""

    api_version: str
    kind: str
    content: Content
    namespaced: bool = True

    def document(self, draw: random.Random, name: str, namespace: str) -> Document:
        metadata: Document = {"name": name, **({"namespace": namespace} if self.namespaced else {})}
        labels = {"app.kubernetes.io/name": name, **maybe(draw, part="a", version=str(draw.randint(1, 3)))}
        metadata |= maybe(
            draw,
            labels=labels,
            annotations=maybe(draw, description="text: of\nlines", flag="true", empty=""),
            creationTimestamp=None,
        )
        return {"apiVersion": self.api_version, "kind": self.kind, "metadata": metadata, **self.content(draw, name)}


def _config_map(draw: random.Random, _name: str) -> Document:
    data = {key: draw.choice(VALUES) for key in some(draw, ["a", "b", "c.yaml", "D_d"])}
    return maybe(draw, data=data, binaryData={"bin": base64.b64encode(draw.randbytes(4)).decode()})


def _secret(draw: random.Random, _name: str) -> Document:
    data = {key: base64.b64encode(draw.choice(VALUES).encode()).decode() for key in some(draw, ["a", "b"])}
    return {"type": "Opaque"} | maybe(
        draw, data=data, stringData={key: draw.choice(VALUES) for key in some(draw, ["b", "c"])}
    )


def _account(draw: random.Random, _name: str) -> Document:
    return maybe(
        draw,
        imagePullSecrets=[{"name": each} for each in some(draw, ["one", "two"])],
        automountServiceAccountToken=draw.choice([True, False]),
        secrets=[{"name": each} for each in some(draw, ["s1", "s2"])],
    )


def _service(draw: random.Random, name: str) -> Document:
    ports = [
        {"name": "http", "port": 80, "targetPort": draw.choice([8080, "http"])},
        {"name": "https", "port": 443, **maybe(draw, protocol="TCP", appProtocol="https")},
        {"name": "dns", "port": 53, "protocol": "UDP"},
        {"name": "dns-tcp", "port": 53, "protocol": "TCP"},
    ]
    spec = {"ports": some(draw, ports, 1), "selector": {"app": name, **maybe(draw, tier="back")}}
    return {
        "spec": spec
        | maybe(
            draw,
            type=draw.choice(["ClusterIP", "NodePort"]),
            sessionAffinity=draw.choice(["None", "ClientIP"]),
            publishNotReadyAddresses=True,
            externalIPs=some(draw, ["192.0.2.1", "192.0.2.2"]),
        )
    }


def _deployment(draw: random.Random, name: str) -> Document:
    rolling = {
        "type": "RollingUpdate",
        "rollingUpdate": maybe(draw, maxSurge=draw.choice([1, "25%"]), maxUnavailable=0),
    }
    return {
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": pod_template(draw, name),
            **maybe(
                draw,
                replicas=draw.choice([0, 1, 2]),
                strategy=draw.choice([{"type": "Recreate"}, rolling]),
                revisionHistoryLimit=draw.choice([0, 3]),
                paused=draw.choice([True, False]),
            ),
        }
    }


def _daemon_set(draw: random.Random, name: str) -> Document:
    spec = {"selector": {"matchLabels": {"app": name}}, "template": pod_template(draw, name)}
    return {"spec": spec | maybe(draw, updateStrategy={"type": draw.choice(["OnDelete", "RollingUpdate"])})}


def _stateful_set(draw: random.Random, name: str) -> Document:
    return {
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "serviceName": name,
            "template": pod_template(draw, name),
            **maybe(draw, replicas=draw.choice([1, 2]), persistentVolumeClaimRetentionPolicy={"whenScaled": "Delete"}),
        }
    }


def _cron_job(draw: random.Random, name: str) -> Document:
    job = {"spec": {"template": pod_template(draw, name, restarts=False), **maybe(draw, backoffLimit=3)}}
    return {
        "spec": {
            "schedule": draw.choice(["0 3 * * *", "*/5 * * * *"]),
            "jobTemplate": job,
            **maybe(draw, concurrencyPolicy="Forbid", suspend=True, timeZone="Etc/UTC"),
        }
    }


def _rules(draw: random.Random) -> list[Document]:
    rules: list[Document] = [
        {"apiGroups": [""], "resources": some(draw, ["pods", "secrets"], 1), "verbs": some(draw, ["get", "list"], 1)},
        {"apiGroups": ["apps"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": ["apps"], "resources": ["deployments"], "resourceNames": ["a"], "verbs": ["patch"]},
    ]
    return some(draw, rules)


def _subjects(draw: random.Random) -> list[Document]:
    accounts = [{"kind": "ServiceAccount", "name": each, "namespace": "default"} for each in ("a", "b")]
    return some(draw, [*accounts, {"kind": "Group", "name": "g", "apiGroup": RBAC}])


def _binding(kind: str) -> Content:
    def content(draw: random.Random, name: str) -> Document:
        return {"roleRef": {"apiGroup": RBAC, "kind": kind, "name": name}} | maybe(draw, subjects=_subjects(draw))

    return content


def _cluster_role(draw: random.Random, name: str) -> Document:
    selectors = [{"matchLabels": {"aggregate-to": each}} for each in some(draw, [name, "b"], 1)]
    return draw.choice(
        [{"rules": _rules(draw)}, {"rules": _rules(draw)}, {"aggregationRule": {"clusterRoleSelectors": selectors}}]
    )


def _scaler(version: str) -> Content:
    def content(draw: random.Random, name: str) -> Document:
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
        metric = {
            "type": "Resource",
            "resource": {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 70}},
        }
        more = (
            maybe(draw, targetCPUUtilizationPercentage=80)
            if version == "v1"
            else maybe(draw, metrics=[metric], behavior={"scaleDown": {"stabilizationWindowSeconds": 60}})
        )
        return {
            "spec": {"scaleTargetRef": target, "maxReplicas": draw.choice([3, 5]), **maybe(draw, minReplicas=1), **more}
        }

    return content


def _budget(draw: random.Random, name: str) -> Document:
    amount: Document = draw.choice([{"minAvailable": 1}, {"minAvailable": "50%"}, {"maxUnavailable": 1}])
    return {"spec": {"selector": {"matchLabels": {"app": name}}, **amount}}


def _network_policy(draw: random.Random, name: str) -> Document:
    peers = [
        {"podSelector": {}},
        {"namespaceSelector": {"matchLabels": {"a": "b"}}},
        {"ipBlock": {"cidr": "10.0.0.0/8"}},
    ]
    ports: list[Document] = [{"port": 80}, {"port": "http", "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]
    rule = maybe(draw, ports=some(draw, ports), **{"from": some(draw, peers)})
    return {
        "spec": {
            "podSelector": {"matchLabels": {"app": name}},
            "policyTypes": ["Ingress"],
            **maybe(draw, ingress=[rule]),
        }
    }


def _ingress(draw: random.Random, name: str) -> Document:
    backend = {"service": {"name": name, "port": draw.choice([{"number": 80}, {"name": "http"}])}}
    paths = [{"path": each, "pathType": "Prefix", "backend": backend} for each in some(draw, ["/", "/a"], 1)]
    hosts = [{"host": each, "http": {"paths": paths}} for each in some(draw, ["a.example", "b.example"], 1)]
    return {"spec": {"rules": hosts} | maybe(draw, tls=[{"hosts": ["a.example"]}], ingressClassName="x")}


def _limit_range(draw: random.Random, _name: str) -> Document:
    return {"spec": {"limits": [{"type": "Container", "default": {"cpu": draw.choice(["1", "1000m", "500m"])}}]}}


def _storage_class(draw: random.Random, _name: str) -> Document:
    return {"provisioner": "example.com/none", **maybe(draw, allowVolumeExpansion=draw.choice([True, False]))}


def _lease(draw: random.Random, _name: str) -> Document:
    return {"spec": maybe(draw, holderIdentity=draw.choice(["a", "b"]), leaseDurationSeconds=15)}


KINDS: tuple[Kind, ...] = (
    Kind("v1", "ConfigMap", _config_map),
    Kind("v1", "Secret", _secret),
    Kind("v1", "ServiceAccount", _account),
    Kind("v1", "Service", _service),
    Kind("v1", "LimitRange", _limit_range),
    Kind("apps/v1", "Deployment", _deployment),
    Kind("apps/v1", "DaemonSet", _daemon_set),
    Kind("apps/v1", "StatefulSet", _stateful_set),
    Kind("batch/v1", "CronJob", _cron_job),
    Kind(f"{RBAC}/v1", "Role", lambda draw, _: {"rules": _rules(draw)}),
    Kind(f"{RBAC}/v1", "RoleBinding", _binding("Role")),
    Kind(f"{RBAC}/v1", "ClusterRole", _cluster_role, namespaced=False),
    Kind(f"{RBAC}/v1", "ClusterRoleBinding", _binding("ClusterRole"), namespaced=False),
    Kind("autoscaling/v1", "HorizontalPodAutoscaler", _scaler("v1")),
    Kind("autoscaling/v2", "HorizontalPodAutoscaler", _scaler("v2")),
    Kind("policy/v1", "PodDisruptionBudget", _budget),
    Kind("networking.k8s.io/v1", "NetworkPolicy", _network_policy),
    Kind("networking.k8s.io/v1", "Ingress", _ingress),
    Kind("storage.k8s.io/v1", "StorageClass", _storage_class, namespaced=False),
    Kind("coordination.k8s.io/v1", "Lease", _lease),
    *(Kind(*each) for each in DEFINITION_KINDS),
)
BY_KIND: dict[str, list[Kind]] = {}
for _each in KINDS:
    BY_KIND.setdefault(_each.kind, []).append(_each)
