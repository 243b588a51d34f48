"""Kinds that no module may have, and Pods and Secrets in kinds of every form: samples, and what none of them may do."""

import random
from typing import Any

import msgspec

from kube_runtime import KubernetesObject
from kyma_oci import DescriptorUnreadable
from lifecycle_manager.module_catalog.module_kinds import ModuleKinds
from lifecycle_manager.module_catalog.offer import Offer
from lifecycle_manager.module_catalog.validation import template_error
from lifecycle_manager.module_installation.module_cr import default_cr, refused_cr
from lifecycle_manager_api import ClusterResource, KindRule, ModulePolicySpec, NamespacedResources
from lifecycle_manager_api.crds import KINDS
from lifecycle_manager_api.known_kinds import HARMLESS
from lifecycle_manager_api.policy_checks import ModuleRules, policy_violations
from lifecycle_manager_api.policy_objects import CLUSTER_SCOPED
from tests import builders

_OF_KUBERNETES = sorted(
    {(group, kind) for group, kind in CLUSTER_SCOPED | HARMLESS if "." not in group or group.endswith(".k8s.io")}
    | {("rbac.authorization.k8s.io", each) for each in ("Role", "RoleBinding")}
    | {("policy", "PodSecurityPolicy"), ("extensions", "DaemonSet"), ("metrics.k8s.io", "PodMetrics")}
    | {(each.GROUP, each.KIND) for each in KINDS}
)
_VERSIONS = ("v1", "v1beta1", "v2", "v1alpha1", "v0")
_PRIVILEGED = {"name": "a", "image": "a", "securityContext": {"privileged": True}}
_NODE = {"name": "a", "hostPath": {"path": "/"}}
_HARMFUL: tuple[dict[str, Any], ...] = (
    {"containers": [_PRIVILEGED]},
    {"initContainers": [_PRIVILEGED], "containers": [{"name": "b"}]},
    {"ephemeralContainers": [_PRIVILEGED]},
    {"steps": [_PRIVILEGED]},
    {"container": _PRIVILEGED},
    {"hostNetwork": True},
    {"hostPID": True, "containers": []},
    {"volumes": [_NODE]},
    {"extraVolumes": [_NODE]},
    {"main": {"ports": [{"hostPort": 22}]}},
    {"securityContext": {"windowsOptions": {"hostProcess": True}}},
    {"annotations": {"sidecar.istio.io/userVolume": '{"a":{"hostPath":{"path":"/"}}}'}},
    {"podAnnotations": {"sidecar.istio.io/proxyImage": "evil"}},
    {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}},
    {"patch": '{"spec": {"hostNetwork": true}}'},
    {"serviceAccountName": "theirs"},
    {"secretName": "theirs"},
    {"imagePullSecrets": [{"name": "theirs"}]},
    {"anySecretRef": {"name": "theirs"}},
    {"valueFrom": {"secretKeyRef": {"name": "theirs", "key": "a"}}},
    {"secretName": "skr-webhook-tls"},
    {"scaleTargetRef": {"kind": "Deployment", "name": "skr-webhook"}},
)
_NAMES = ("spec", "template", "jobTemplate", "items", "a", "pod", "podTemplate", "workflowSpec", "Containers")
_KINDS = (
    ("keda.sh/v1alpha1", "ScaledJob"),
    ("argoproj.io/v1alpha1", "Workflow"),
    ("argoproj.io/v1alpha1", "ClusterWorkflowTemplate"),
    ("a.example.com/v1", "CronThing"),
    ("v1", "PodTemplateList"),
    ("v1", "List"),
    ("extensions/v1beta1", "Deployment"),
    ("apps/v1", "deployment"),
)
EVERY_KIND = ModulePolicySpec(
    namespaces=("shop", "kyma-system"),
    cluster_resources=(ClusterResource(group="*", kind="*", names=("*",)),),
    namespaced_resources=NamespacedResources(allow=(KindRule(group="*", kind="*", names=("*",)),), deny=()),
)
"""Names every kind, and has its defaults else."""


def sample_of_default_cr(draw: random.Random) -> bytes:
    """Return a default Module CR of a kind of Kubernetes or of the Lifecycle Manager."""
    group, kind = draw.choice(_OF_KUBERNETES)
    if "." not in group or group.endswith(".k8s.io"):
        group = draw.choice((group, group.upper(), f"example.com/../{group}", f"x.{group}" if "." in group else group))
    kind = draw.choice((kind, kind.lower(), kind.upper()))
    api_version = f"{group}/{draw.choice(_VERSIONS)}" if group or draw.random() < 0.2 else draw.choice(_VERSIONS)
    return msgspec.json.encode({"apiVersion": api_version, "kind": kind, "metadata": {"name": "default"}})


def effect_of_default_cr(sample: bytes) -> str:
    """Return what comes of a default Module CR that may have no effect; empty where nothing does."""
    data = msgspec.json.decode(sample)
    template = builders.template("evil", "1.0.0", installs=True, data=data)
    offer = Offer.of([template], ())
    manifest = builders.manifest("evil", "1.0.0")
    manifest = msgspec.structs.replace(
        manifest, spec=msgspec.structs.replace(manifest.spec, resource=msgspec.Raw(sample))
    )
    if template_error(template, offer) is None:
        return "admission accepts it"
    if ModuleKinds(_no_download).known(template):
        return "its kind is read"
    if default_cr(manifest) is not None or not refused_cr(manifest):
        return "it is created"
    try:
        offer.component(template)
    except DescriptorUnreadable:
        return ""
    return "its module is offered"


async def _no_download(_: str) -> str:
    raise AssertionError("nothing is downloaded")


def sample_of_objects(draw: random.Random) -> bytes:
    """Return an object of some kind, in which something harmful is at some place."""
    inner: Any = draw.choice(_HARMFUL)
    for _ in range(draw.randint(0, 5)):
        inner = {draw.choice(_NAMES): inner if draw.random() < 0.7 else [inner], "b": draw.choice((1, "x", None, []))}
    api_version, kind = draw.choice(_KINDS)
    place = {} if kind.startswith("Cluster") else {"namespace": "kyma-system"}
    document = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x", **place}, "spec": inner}
    return msgspec.json.encode(document)


def effect_of_objects(sample: bytes) -> str:
    """Return what a policy that names every kind, and allows nothing else, does not find; empty where it does."""
    thing = KubernetesObject.of(msgspec.json.decode(sample))
    found = policy_violations([thing], ModuleRules("shop", EVERY_KIND), default_namespace="shop")
    return "" if any(found) else "the policy allows it"
