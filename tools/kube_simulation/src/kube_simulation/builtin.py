"""The built-in kinds that every cluster serves.

Their schemas say what the merge of an apply needs: which lists are merged by keys, and what is owned as a whole. What
is not declared in depth is kept as it comes; of the objects themselves every field is declared, so that a field that
does not exist is refused.
"""

from dataclasses import replace
from typing import Any

from kube_simulation.kinds import Kind
from kube_simulation.schemas import object_shape

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_FLAG: Schema = {"type": "boolean"}
_TEXTS: Schema = {"type": "object", "additionalProperties": _TEXT}
_ANY: Schema = {"x-kubernetes-preserve-unknown-fields": True}
_OPEN: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_LIST: Schema = {"type": "array", "items": {"x-kubernetes-preserve-unknown-fields": True}}
_WHOLE: Schema = {**_OPEN, "x-kubernetes-map-type": "atomic"}
_SET: Schema = {"type": "array", "x-kubernetes-list-type": "set", "items": _TEXT}


def _struct(**properties: Schema) -> Schema:
    return {
        "type": "object",
        "x-always-there": True,
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": properties,
    }


def _keyed(*keys: str, **properties: Schema) -> Schema:
    item = {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": properties}
    return {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": list(keys),
        "items": item,
    }


_CONVERSION: Schema = {**_OPEN, "default": {"strategy": "None"}}
_PROTOCOL: Schema = {"type": "string", "default": "TCP"}
_CONDITIONS = _keyed("type")
_CONTAINERS = _keyed(
    "name",
    env=_keyed("name"),
    ports=_keyed("containerPort", "protocol", protocol=_PROTOCOL),
    volumeMounts=_keyed("mountPath"),
    volumeDevices=_keyed("devicePath"),
)
_POD = _struct(
    containers=_CONTAINERS,
    initContainers=_CONTAINERS,
    volumes=_keyed("name"),
    imagePullSecrets=_keyed("name"),
    hostAliases=_keyed("ip"),
    topologySpreadConstraints=_keyed("topologyKey", "whenUnsatisfiable"),
    nodeSelector={**_TEXTS, "x-kubernetes-map-type": "atomic"},
)
_TEMPLATE = _struct(metadata=_struct(labels=_TEXTS, annotations=_TEXTS, finalizers=_SET), spec=_POD)
_WORKLOAD = _struct(selector=_WHOLE, template=_TEMPLATE)
_STATUS = _struct(conditions=_CONDITIONS)
_WEBHOOKS = _keyed("name", namespaceSelector=_WHOLE, objectSelector=_WHOLE, matchConditions=_keyed("name"))


def _kind(
    api_version: str,
    kind: str,
    plural: str,
    *,
    cluster: bool = False,
    status: bool = False,
    generation: bool = False,
    short: str = "",
    subresources: tuple[str, ...] = (),
    fields: str = "",
    **properties: Schema,
) -> Kind:
    """Return a kind with the fields that are given, and those that `fields` names without saying what they hold."""
    group, _, version = api_version.rpartition("/")
    properties |= dict.fromkeys(fields.split(), _ANY)
    if status:
        properties.setdefault("status", _STATUS)
    return Kind(
        group=group,
        version=version,
        kind=kind,
        plural=plural,
        namespaced=not cluster,
        shape=object_shape({"properties": properties}),
        status=status,
        generation=generation,
        singular=kind.lower(),
        short_names=tuple(short.split()),
        subresources=subresources,
        list_kind=f"{kind}List",
        storage=(group, plural),
    )


NAMESPACE = _kind(
    "v1", "Namespace", "namespaces", cluster=True, status=True, short="ns", spec=_struct(finalizers=_LIST)
)
CRD = _kind(
    "apiextensions.k8s.io/v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    cluster=True,
    status=True,
    generation=True,
    short="crd crds",
    spec=_struct(conversion=_CONVERSION, names=_struct(shortNames=_LIST, categories=_LIST), versions=_LIST),
)
_EVENT = (
    "action deprecatedCount deprecatedFirstTimestamp deprecatedLastTimestamp deprecatedSource eventTime note reason "
    "regarding related reportingController reportingInstance series type"
)
_CORE_EVENT = (
    "action count eventTime firstTimestamp involvedObject lastTimestamp message reason related reportingComponent "
    "reportingInstance series source type"
)

BUILTIN_KINDS: tuple[Kind, ...] = (
    NAMESPACE,
    CRD,
    _kind("v1", "ConfigMap", "configmaps", short="cm", data=_TEXTS, binaryData=_TEXTS, immutable=_FLAG),
    _kind(
        "v1",
        "Secret",
        "secrets",
        data=_TEXTS,
        stringData=_TEXTS,
        immutable=_FLAG,
        type={"type": "string", "default": "Opaque"},
    ),
    _kind(
        "v1",
        "ServiceAccount",
        "serviceaccounts",
        short="sa",
        subresources=("token",),
        secrets=_keyed("name"),
        imagePullSecrets=_LIST,
        automountServiceAccountToken=_FLAG,
    ),
    _kind(
        "v1",
        "Service",
        "services",
        status=True,
        short="svc",
        spec=_struct(
            ports=_keyed("port", "protocol", protocol=_PROTOCOL), selector={**_TEXTS, "x-kubernetes-map-type": "atomic"}
        ),
    ),
    _kind("v1", "Pod", "pods", status=True, generation=True, short="po", spec=_POD),
    _kind("v1", "Node", "nodes", cluster=True, status=True, short="no", spec=_struct(taints=_LIST)),
    _kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims", status=True, short="pvc", spec=_struct()),
    _kind("v1", "Endpoints", "endpoints", short="ep", subsets=_LIST),
    _kind("v1", "ResourceQuota", "resourcequotas", status=True, short="quota", spec=_struct()),
    _kind("v1", "LimitRange", "limitranges", short="limits", spec=_struct()),
    _kind("v1", "Event", "events", short="ev", fields=_CORE_EVENT),
    replace(
        _kind("events.k8s.io/v1", "Event", "events", short="ev", fields=_EVENT),
        selectable=("regarding.kind", "regarding.name", "regarding.namespace", "reason", "type"),
    ),
    replace(
        _kind("coordination.k8s.io/v1", "Lease", "leases", spec=_struct()), unconditional=False, creates_on_update=True
    ),
    _kind("apps/v1", "Deployment", "deployments", status=True, generation=True, short="deploy", spec=_WORKLOAD),
    _kind("apps/v1", "StatefulSet", "statefulsets", status=True, generation=True, short="sts", spec=_WORKLOAD),
    _kind("apps/v1", "DaemonSet", "daemonsets", status=True, generation=True, short="ds", spec=_WORKLOAD),
    _kind("apps/v1", "ReplicaSet", "replicasets", status=True, generation=True, short="rs", spec=_WORKLOAD),
    _kind("batch/v1", "Job", "jobs", status=True, generation=True, spec=_WORKLOAD),
    _kind(
        "batch/v1",
        "CronJob",
        "cronjobs",
        status=True,
        generation=True,
        short="cj",
        spec=_struct(jobTemplate=_struct(spec=_WORKLOAD)),
    ),
    _kind("rbac.authorization.k8s.io/v1", "Role", "roles", rules=_LIST),
    _kind("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings", roleRef=_WHOLE, subjects=_LIST),
    _kind(
        "rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", cluster=True, rules=_LIST, aggregationRule=_WHOLE
    ),
    _kind(
        "rbac.authorization.k8s.io/v1",
        "ClusterRoleBinding",
        "clusterrolebindings",
        cluster=True,
        roleRef=_WHOLE,
        subjects=_LIST,
    ),
    *(
        _kind("admissionregistration.k8s.io/v1", kind, plural, cluster=True, generation=True, spec=_ANY)
        for kind, plural in (
            ("ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
            ("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"),
        )
    ),
    _kind(
        "admissionregistration.k8s.io/v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        cluster=True,
        generation=True,
        webhooks=_WEBHOOKS,
    ),
    _kind(
        "admissionregistration.k8s.io/v1",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        cluster=True,
        generation=True,
        webhooks=_WEBHOOKS,
    ),
    _kind("networking.k8s.io/v1", "Ingress", "ingresses", status=True, generation=True, short="ing", spec=_struct()),
    _kind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", generation=True, short="netpol", spec=_struct()),
    _kind(
        "policy/v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        status=True,
        generation=True,
        short="pdb",
        spec=_struct(selector=_WHOLE),
    ),
    _kind(
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        status=True,
        short="hpa",
        spec=_struct(),
    ),
    _kind(
        "scheduling.k8s.io/v1",
        "PriorityClass",
        "priorityclasses",
        cluster=True,
        generation=True,
        short="pc",
        value={"type": "integer"},
        globalDefault=_FLAG,
        description=_TEXT,
        preemptionPolicy=_TEXT,
    ),
)
