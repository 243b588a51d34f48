"""A module in the shape of a real one: an operator with its definitions, rights, workloads, webhooks and what else.

The definition is as large as those of real operators; its object has `status.state`, as Kyma's modules have.
"""

from collections.abc import Iterable
from copy import deepcopy
from importlib.resources import files
from typing import Any

from kube_runtime import Resource, dump_yaml
from lifecycle_manager_api import names
from tests.kinds import OPEN, crd_of

Document = dict[str, Any]
# The administrator of a cluster decides which objects modules may contain; here all are allowed.
ANY_MODULE = f"""{files("lifecycle_manager.rbac").joinpath("skr-modules.yaml").read_text()}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{name: lifecycle-manager-modules}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: lifecycle-manager-modules}}
subjects: [{{kind: ServiceAccount, name: lifecycle-manager, namespace: kube-system}}]
"""
NAMESPACE = names.SKR_NAMESPACE
CORE_OBJECTS = 26


def group_of(module: str) -> str:
    return f"{module}.modules.example.com"


def module_crs(module: str) -> Resource[Document]:
    return Resource.dynamic(group_of(module), "v1", module.capitalize(), f"{module}s", namespaced=True)


def config_map(name: str, namespace: str = NAMESPACE, **data: str) -> Document:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data}


def crd(module: str, *served: str, stored: str = "v1", scope: str = "Namespaced") -> Document:
    """Return the definition of a module's kind in other versions, or with another scope."""
    made = _definition(module, module.capitalize(), 2)
    (v1,) = made["spec"]["versions"]
    named = sorted({*served, stored})
    versions = [{**deepcopy(v1), "name": each, "served": each in served, "storage": each == stored} for each in named]
    return {**made, "spec": {**made["spec"], "scope": scope, "versions": versions}}


def default_module_cr(module: str) -> Document:
    """Return the default Module CR as a ModuleTemplate has it."""
    return {
        "apiVersion": f"{group_of(module)}/v1",
        "kind": module.capitalize(),
        "metadata": {"name": "default"},
        "spec": {"verbosity": "info"},
        "status": {"state": "Ready"},
    }


def operator(module: str, version: str, *, config_maps: int = 14, properties: int = 40) -> list[Document]:
    """Return the objects of a version: CORE_OBJECTS and as many ConfigMaps."""
    labels = {"app.kubernetes.io/name": module, "app.kubernetes.io/version": version}
    return [
        _definition(module, module.capitalize(), properties),
        _definition(module, f"{module.capitalize()}Rule", 3),
        _cluster("scheduling.k8s.io/v1", "PriorityClass", f"{module}-priority", value=1000, globalDefault=False),
        *_rights(module),
        *_workloads(module, version, labels),
        *_configuration(module),
        *_callers(module),
        _object(
            f"{group_of(module)}/v1", f"{module.capitalize()}Rule", f"{module}-rule", spec={"field0": f"of {version}"}
        ),
        *(
            _object("v1", "ConfigMap", f"{module}-part-{number}", data={"version": version})
            for number in range(config_maps)
        ),
    ]


def as_text(documents: Iterable[Document]) -> str:
    return "---\n".join(map(dump_yaml, documents))


def _rights(module: str) -> list[Document]:
    account = [{"kind": "ServiceAccount", "name": f"{module}-manager", "namespace": NAMESPACE}]
    role = "rbac.authorization.k8s.io"
    own = [{"apiGroups": [group_of(module)], "resources": ["*"], "verbs": ["*"]}]
    read = [{"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch"]}]
    leases = [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]}]

    def reference(kind: str, name: str) -> Document:
        return {"apiGroup": role, "kind": kind, "name": name}

    return [
        _object("v1", "ServiceAccount", f"{module}-manager"),
        _object("v1", "ServiceAccount", f"{module}-agent"),
        _cluster(f"{role}/v1", "ClusterRole", f"{module}-manager", rules=[*own, *read]),
        _cluster(f"{role}/v1", "ClusterRole", f"{module}-viewer", rules=read),
        _cluster(
            f"{role}/v1",
            "ClusterRoleBinding",
            f"{module}-manager",
            roleRef=reference("ClusterRole", f"{module}-manager"),
            subjects=account,
        ),
        _object(f"{role}/v1", "Role", f"{module}-leases", rules=leases),
        _object(
            f"{role}/v1",
            "RoleBinding",
            f"{module}-leases",
            roleRef=reference("Role", f"{module}-leases"),
            subjects=account,
        ),
    ]


def _workloads(module: str, version: str, labels: Document) -> list[Document]:
    def template(part: str, **spec: Any) -> Document:
        image = f"registry.example.com/prod/{module}-{part}:{version}"
        container = {
            "name": part,
            "image": image,
            "env": [{"name": "AGENT_IMAGE", "value": f"registry.example.com/prod/{module}-agent:{version}"}],
            "ports": [{"name": "metrics", "containerPort": 8080, "protocol": "TCP"}],
            "resources": {"limits": {"cpu": "100m", "memory": "128Mi"}, "requests": {"cpu": "10m", "memory": "64Mi"}},
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        }
        pod = {"serviceAccountName": f"{module}-manager", "containers": [container], **spec}
        return {"metadata": {"labels": {**labels, "part": part}}, "spec": pod}

    def selecting(part: str) -> Document:
        return {"selector": {"matchLabels": {"part": part}}, "template": template(part)}

    job = {"template": template("cleaner", restartPolicy="Never")}
    return [
        _object("apps/v1", "Deployment", f"{module}-manager", spec={"replicas": 1, **selecting("manager")}),
        _object("apps/v1", "DaemonSet", f"{module}-agent", spec=selecting("agent")),
        _object(
            "batch/v1", "CronJob", f"{module}-cleaner", spec={"schedule": "0 3 * * *", "jobTemplate": {"spec": job}}
        ),
        _object("v1", "Service", f"{module}-manager", spec={"ports": [{"port": 443, "targetPort": 8443}]}),
        _object("v1", "Service", f"{module}-metrics", spec={"ports": [{"name": "metrics", "port": 8080}]}),
        _object(
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            f"{module}-manager",
            spec={
                "maxReplicas": 2,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": f"{module}-manager"},
            },
        ),
    ]


def _configuration(module: str) -> list[Document]:
    egress = {"podSelector": {"matchLabels": {"part": "manager"}}, "policyTypes": ["Egress"], "egress": [{}]}
    ingress = {"podSelector": {"matchLabels": {"part": "manager"}}, "policyTypes": ["Ingress"], "ingress": [{}]}
    return [
        _object("networking.k8s.io/v1", "NetworkPolicy", f"{module}-egress", spec=egress),
        _object("networking.k8s.io/v1", "NetworkPolicy", f"{module}-ingress", spec=ingress),
        _object(
            "policy/v1",
            "PodDisruptionBudget",
            f"{module}-manager",
            spec={"minAvailable": 1, "selector": {"matchLabels": {"part": "manager"}}},
        ),
        _object("v1", "Secret", f"{module}-settings", stringData={"greeting": "hello"}),
        _object("v1", "ConfigMap", f"{module}-settings", data={"level": "info"}),
        _object("v1", "LimitRange", f"{module}-limits", spec={"limits": [{"type": "Pod", "max": {"cpu": "8"}}]}),
    ]


def _callers(module: str) -> list[Document]:
    def hook(kind: str) -> Document:
        return {
            "name": f"{kind}.{group_of(module)}",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Ignore",
            "timeoutSeconds": 1,
            "clientConfig": {"service": {"name": f"{module}-manager", "namespace": NAMESPACE, "path": f"/{kind}"}},
            "rules": [
                {
                    "apiGroups": [f"nobody.{group_of(module)}"],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE"],
                    "resources": ["*"],
                }
            ],
        }

    admission = "admissionregistration.k8s.io/v1"
    return [
        _cluster(admission, "ValidatingWebhookConfiguration", f"{module}-validating", webhooks=[hook("validate")]),
        _cluster(admission, "MutatingWebhookConfiguration", f"{module}-mutating", webhooks=[hook("mutate")]),
        _cluster("node.k8s.io/v1", "RuntimeClass", f"{module}-runtime", handler="runc"),
    ]


def _definition(module: str, kind: str, properties: int) -> Document:
    words = "What the field is for, at the length at which real definitions explain it. " * 4
    field = {"type": "string", "description": words}
    spec = {**OPEN, "properties": {f"field{number}": field for number in range(properties)}}
    schema = {"type": "object", "properties": {"spec": spec, "status": OPEN}}
    return crd_of(group_of(module), kind, schema=schema, has_status=True)


def _object(api_version: str, kind: str, name: str, **content: Any) -> Document:
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}


def _cluster(api_version: str, kind: str, name: str, **content: Any) -> Document:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **content}
