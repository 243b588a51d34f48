"""A policy allows kinds that are known to be harmless, and finds Pods and Secrets in any kind by their structure."""

import json
from typing import Any

import pytest

from kube_runtime import KubernetesObject
from lifecycle_manager.object_set.rules import objections
from lifecycle_manager_api import ClusterResource, KindRule, ModulePolicySpec, NamespacedResources
from lifecycle_manager_api.needed_policy import needed_policy
from lifecycle_manager_api.policy_checks import ModuleRules
from tests.cpu_time import takes_at_most
from tests.policies import anything

SYSTEM, OWN = "kyma-system", "shop"
ADMISSION, RBAC = "admissionregistration.k8s.io/v1", "rbac.authorization.k8s.io/v1"
EVERY_KIND = NamespacedResources(allow=(KindRule(group="*", kind="*", names=("*",)),))
EVERY_CLUSTER_KIND = (ClusterResource(group="*", kind="*", names=("x", "shop-*")),)
PRIVILEGED = {"name": "a", "image": "a", "securityContext": {"privileged": True}}
POD = {"containers": [PRIVILEGED]}
NODE = {"name": "node", "hostPath": {"path": "/"}}


def thing(api_version: str, kind: str, namespace: str = OWN, name: str = "x", **content: Any) -> KubernetesObject:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {}) | content.pop("metadata", {})
    return KubernetesObject.of({"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}, 0)


def denied_by(rules: ModuleRules, *things: KubernetesObject) -> list[str]:
    return [
        str(each).partition(": ")[2].partition(": ")[2] for each in objections(things, rules, default_namespace="d")
    ]


def policy(**fields: Any) -> ModuleRules:
    """Return a policy that names every kind, and leaves all else at its defaults."""
    given = {"namespaced_resources": EVERY_KIND, "cluster_resources": EVERY_CLUSTER_KIND, **fields}
    return ModuleRules("shop", ModulePolicySpec(**given))


EMBEDDED = {
    "keda": thing("keda.sh/v1alpha1", "ScaledJob", spec={"jobTargetRef": {"template": {"spec": POD}}}),
    "argo container": thing("argoproj.io/v1alpha1", "Workflow", spec={"templates": [{"container": PRIVILEGED}]}),
    "argo script": thing("argoproj.io/v1alpha1", "Workflow", spec={"templates": [{"script": PRIVILEGED}]}),
    "argo sidecar": thing("argoproj.io/v1alpha1", "Workflow", spec={"templates": [{"sidecars": [PRIVILEGED]}]}),
    "argo cron": thing("argoproj.io/v1alpha1", "CronWorkflow", spec={"workflowSpec": {"volumes": [NODE]}}),
    "tekton": thing("tekton.dev/v1", "TaskRun", spec={"taskSpec": {"steps": [PRIVILEGED]}}),
    "tekton pod": thing("tekton.dev/v1", "TaskRun", spec={"podTemplate": {"hostNetwork": True}}),
    "cluster-scoped": thing(
        "argoproj.io/v1alpha1", "ClusterWorkflowTemplate", "", spec={"templates": [{"container": PRIVILEGED}]}
    ),
    "knative": thing("serving.knative.dev/v1", "Service", spec={"template": {"spec": POD}}),
    "cron of a CRD": thing("a.example.com/v1", "Cron", spec={"jobTemplate": {"spec": {"template": {"spec": POD}}}}),
    "init": thing("a.example.com/v1", "Thing", spec={"initContainers": [PRIVILEGED]}),
    "ephemeral": thing("a.example.com/v1", "Thing", spec={"a": [{"b": {"ephemeralContainers": [PRIVILEGED]}}]}),
    "map of containers": thing("a.example.com/v1", "Thing", spec={"containers": {"one": PRIVILEGED}}),
    "containers in a container": thing("a.example.com/v1", "Thing", spec={"containers": [{"a": POD}]}),
    "list of templates": thing("v1", "PodTemplateList", items=[{"template": {"spec": POD}}]),
    "list": thing("v1", "List", items=[{"kind": "Pod", "spec": POD}]),
    "lower case": thing("apps/v1", "deployment", spec={"template": {"spec": POD}}),
    "former group": thing("extensions/v1beta1", "DaemonSet", spec={"template": {"spec": POD}}),
    "other version": thing("apps/v1beta1", "Deployment", spec={"template": {"spec": POD}}),
    "volumes by another name": thing("a.example.com/v1", "Thing", spec={"extraVolumes": [NODE]}),
    "host port": thing("a.example.com/v1", "Thing", spec={"main": {"ports": [{"hostPort": 80}]}}),
    "probe": thing("a.example.com/v1", "Thing", spec={"main": {"livenessProbe": {"httpGet": {"host": "10.0.0.1"}}}}),
    "capability": thing(
        "a.example.com/v1", "Thing", spec={"main": {"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}}
    ),
    "sysctl": thing(
        "a.example.com/v1", "Thing", spec={"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}
    ),
    "not in a spec": thing("a.example.com/v1", "Thing", template={"spec": POD}),
    "patch as text": thing(
        "argoproj.io/v1alpha1", "Workflow", spec={"podSpecPatch": json.dumps({"hostNetwork": True})}
    ),
    "escaped text": thing("argoproj.io/v1alpha1", "Workflow", spec={"podSpecPatch": r'{"host\u004eetwork": true}'}),
    "text in other letters": thing("argoproj.io/v1alpha1", "Workflow", spec={"podSpecPatch": '{"HOSTPID": true}'}),
    "other letters": thing("a.example.com/v1", "Thing", spec={"Main": {"SecurityContext": {"Privileged": True}}}),
    "other letters of a Pod": thing("a.example.com/v1", "Thing", spec={"HostNetwork": True}),
    "manifest as text": thing(
        "argoproj.io/v1alpha1",
        "Workflow",
        spec={"templates": [{"resource": {"manifest": "kind: Pod\nspec:\n  containers:\n  - image: a\n"}}]},
    ),
}
MARKED = {
    "volume": {"sidecar.istio.io/userVolume": json.dumps({"node": {"hostPath": {"path": "/"}}})},
    "volumes": {"sidecar.istio.io/userVolume": json.dumps([NODE])},
    "unreadable volume": {"sidecar.istio.io/userVolume": "node: {hostPath: {path: /}}"},
    "image": {"sidecar.istio.io/proxyImage": "evil"},
    "bootstrap": {"sidecar.istio.io/bootstrapOverride": "mine"},
    "template": {"inject.istio.io/templates": "mine"},
    "config": {"proxy.istio.io/config": '{"binaryPath": "/bin/sh"}'},
    "two settings": {"proxy.istio.io/config": 'concurrency: 2\nbinaryPath: "/bin/sh"'},
    "seccomp": {"seccomp.security.alpha.kubernetes.io/pod": "unconfined"},
    "seccomp of a container": {"container.seccomp.security.alpha.kubernetes.io/a": "unconfined"},
    "app armor": {"container.apparmor.security.beta.kubernetes.io/a": "unconfined"},
    "sysctl": {"security.alpha.kubernetes.io/unsafe-sysctls": "kernel.msgmax=1"},
    "network": {"k8s.v1.cni.cncf.io/networks": "host"},
    "runtime": {"io.kubernetes.cri-o.userns-mode": "auto"},
}


@pytest.mark.parametrize("found", EMBEDDED.values(), ids=EMBEDDED.keys())
def test_privileged_pod_is_found_in_any_kind(found: KubernetesObject) -> None:
    assert any(each.startswith("spec.podSecurity baseline: ") for each in denied_by(policy(), found))
    assert [each for each in denied_by(anything("shop"), found) if "podSecurity" in each] == []


@pytest.mark.parametrize("kind", ["Deployment", "Workflow", "Pod"])
@pytest.mark.parametrize("marks", MARKED.values(), ids=MARKED.keys())
def test_mark_counts_as_the_field_that_it_stands_for(kind: str, marks: dict[str, str]) -> None:
    pod: dict[str, Any] = {"metadata": {"annotations": marks}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
    group = {"Deployment": "apps/v1", "Workflow": "argoproj.io/v1alpha1", "Pod": "v1"}[kind]
    found = thing(group, kind, **pod) if kind == "Pod" else thing(group, kind, spec={"template": pod})

    assert any(each.startswith("spec.podSecurity baseline: ") for each in denied_by(policy(), found))
    assert denied_by(policy(pod_security="privileged"), found) == []


@pytest.mark.parametrize("place", ["labels", "podLabels"])
def test_harmless_marks_are_allowed(place: str) -> None:
    marks = {"sidecar.istio.io/inject": "false", "sidecar.istio.io/proxyCPU": "100m", "app": "shop"}
    marks |= {"proxy.istio.io/config": '{ "holdApplicationUntilProxyStarts": true }'}

    assert denied_by(policy(), thing("a.example.com/v1", "Thing", spec={"template": {place: marks}})) == []


@pytest.mark.parametrize("text", [" " * 20_000 + "x", "concurrency: 1" + " " * 20_000 + "x"], ids=["before", "after"])
def test_mark_and_name_of_any_length_are_checked_in_linear_time(text: str) -> None:
    annotations = {"proxy.istio.io/config": text, "/" * 20_000: ""}
    found = thing("v1", "Service", metadata={"annotations": annotations})

    assert denied_by(policy(), found)
    assert takes_at_most(1.0, lambda: denied_by(policy(), found))


@pytest.mark.parametrize(
    "found",
    [
        [thing("v1", "ConfigMap", SYSTEM, f"x{number}") for number in range(5_000)],
        [thing(ADMISSION, "MutatingWebhookConfiguration", "", webhooks=[{"a": {"b": each}} for each in range(9_000)])],
    ],
    ids=["objects", "webhooks"],
)
def test_objects_and_webhooks_of_any_number_are_checked_in_linear_time(found: list[KubernetesObject]) -> None:
    assert takes_at_most(2.0, lambda: denied_by(policy(), *found))


@pytest.mark.parametrize(("enforced", "is_denied"), [("privileged", True), ("Baseline", True), ("restricted", False)])
def test_namespace_has_no_other_level_enforced_than_its_policy(enforced: str, is_denied: bool) -> None:
    label = {"pod-security.kubernetes.io/enforce": enforced}
    namespace = thing("v1", "Namespace", "", OWN, metadata={"name": OWN, "labels": label})

    assert any("enforced" in each for each in denied_by(policy(), namespace)) == is_denied
    assert denied_by(policy(pod_security="privileged"), namespace) == []


@pytest.mark.parametrize(
    "unknown",
    [
        thing("keda.sh/v1alpha1", "ScaledJob"),
        thing("argoproj.io/v1alpha1", "Workflow"),
        thing("a.example.com/v1", "Anything"),
        thing("networking.istio.io/v1alpha3", "EnvoyFilter"),
        thing("cert-manager.io/v1", "Issuer"),
        thing("apps/v1", "deployment"),
        thing("extensions/v1beta1", "Deployment"),
        thing("v1", "PodTemplateList"),
    ],
    ids=str,
)
def test_kind_that_is_not_known_to_be_harmless_has_to_be_named(unknown: KubernetesObject) -> None:
    (message,) = denied_by(ModuleRules("shop"), unknown)
    needed = needed_policy([unknown], "shop", default_namespace="d")

    assert message.startswith("spec.namespacedResources.allow: does not list ")
    assert denied_by(policy(), unknown) == []
    assert denied_by(ModuleRules("shop", needed), unknown) == []


def test_kind_of_a_crd_among_the_objects_is_the_modules_own() -> None:
    crd = thing(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        "",
        "teas.shop.example.com",
        spec={"group": "shop.example.com", "names": {"kind": "Tea"}, "scope": "Namespaced"},
    )
    named = ClusterResource(group="apiextensions.k8s.io", kind="CustomResourceDefinition", names=("*",))
    rules = ModuleRules("shop", ModulePolicySpec(cluster_resources=(named,)))

    assert denied_by(rules, crd, thing("shop.example.com/v1", "Tea")) == []
    assert denied_by(rules, thing("shop.example.com/v1", "Tea")) != []


@pytest.mark.parametrize(
    "content",
    [
        {"secretName": "theirs"},
        {"a": [{"secretRef": {"name": "theirs"}}]},
        {"auth": {"privateKeySecretRef": {"name": "theirs"}}},
        {"secretTargetRef": [{"parameter": "a", "name": "theirs", "key": "b"}]},
        {"imagePullSecrets": [{"name": "theirs"}]},
        {"secrets": ["theirs"]},
        {"auth": {"existingSecret": "theirs"}},
        {"adminSecretName": "theirs"},
        {"pullSecrets": ["theirs"]},
        {"valuesFrom": [{"kind": "Secret", "name": "theirs"}]},
        {"servers": [{"tls": {"credentialName": "theirs"}}]},
        {"servers": [{"tls": {"credentialNames": ["theirs"]}}]},
        {"tls": {"certificateRefs": [{"name": "theirs"}]}},
        {"clientSecret": {"name": "theirs", "key": "a"}},
        {"template": {"annotations": {"nginx.ingress.kubernetes.io/auth-secret": "kyma-system/theirs"}}},
    ],
    ids=str,
)
def test_reference_to_a_secret_is_found_in_any_kind(content: dict[str, Any]) -> None:
    found = thing("a.example.com/v1", "Thing", SYSTEM, spec=content)

    assert denied_by(policy(), found) == ["spec.secrets: it uses Secret theirs, which is not listed"]
    assert denied_by(policy(), found, thing("v1", "Secret", SYSTEM, "theirs")) == []
    assert denied_by(policy(secrets=("theirs",)), found) == []


def test_reference_names_a_secret_of_another_namespace() -> None:
    found = thing("a.example.com/v1", "Thing", spec={"secretRef": {"name": "theirs", "namespace": SYSTEM}})

    assert denied_by(policy(), found) == ["spec.secrets: it uses Secret theirs, which is not listed"]
    assert denied_by(policy(), thing("a.example.com/v1", "Thing", spec={"secretRef": {"name": "ours"}})) == []


@pytest.mark.parametrize("key", ["namespace", "secretNamespace"])
def test_annotation_does_not_move_the_reference_of_another_one_to_the_own_namespace(key: str) -> None:
    annotations = {"nginx.ingress.kubernetes.io/auth-tls-secret": "theirs", key: "shop"}
    allow = (KindRule(group="*", kind="*", names=("*",)),)
    found = thing("networking.k8s.io/v1", "Ingress", SYSTEM, metadata={"annotations": annotations})
    rules = policy(namespaced_resources=NamespacedResources(allow=allow), hosts=("*",))

    assert denied_by(rules, found) == ["spec.secrets: it uses Secret theirs, which is not listed"]


@pytest.mark.parametrize("key", ["namespace", "secretNamespace"])
def test_object_in_no_namespace_refers_to_a_secret_in_the_one_that_it_names(key: str) -> None:
    files = {"shareName": "x", "secretName": "mine", key: "shop"}
    assert denied_by(policy(), thing("v1", "PersistentVolume", "", spec={"azureFile": files})) == []
    theirs = {**files, key: "theirs"}
    denied = denied_by(policy(), thing("v1", "PersistentVolume", "", spec={"azureFile": theirs}))
    assert denied == ["spec.secrets: it uses Secret mine, which is not listed"]


@pytest.mark.parametrize(
    "found",
    [
        thing("cert-manager.io/v1", "Certificate", SYSTEM, spec={"secretName": "skr-webhook-tls"}),
        thing("a.example.com/v1", "External", SYSTEM, spec={"target": {"name": "skr-webhook-tls"}}),
        thing("a.example.com/v1", "External", spec={"from": "kyma-system/skr-webhook-tls"}),
        thing("autoscaling/v2", "HorizontalPodAutoscaler", SYSTEM, spec={"scaleTargetRef": {"name": "skr-webhook"}}),
        thing("autoscaling.k8s.io/v1", "VerticalPodAutoscaler", SYSTEM, spec={"targetRef": {"name": "skr-webhook"}}),
        thing("keda.sh/v1alpha1", "ScaledObject", SYSTEM, spec={"scaleTargetRef": {"name": "skr-webhook"}}),
        thing("policy/v1", "PodDisruptionBudget", SYSTEM, spec={"selector": {"matchLabels": {"app": "skr-webhook"}}}),
        thing(RBAC, "Role", SYSTEM, rules=[{"resources": ["secrets"], "resourceNames": ["skr-webhook-tls"]}]),
    ],
    ids=str,
)
def test_nothing_refers_to_the_watcher(found: KubernetesObject) -> None:
    assert any("belongs to the Lifecycle Manager" in each for each in denied_by(anything("shop"), found))


def test_names_that_begin_like_the_watchers_are_not_its_own() -> None:
    assert denied_by(policy(), thing("a.example.com/v1", "Thing", spec={"a": "my-skr-webhook skr-webhooks"})) == []


@pytest.mark.parametrize(
    "found",
    [
        thing("v1", "ResourceQuota", SYSTEM),
        thing("v1", "LimitRange", SYSTEM),
        thing("autoscaling/v2", "HorizontalPodAutoscaler", SYSTEM, spec={"scaleTargetRef": {"name": "theirs"}}),
        thing("autoscaling.k8s.io/v1", "VerticalPodAutoscaler", SYSTEM, spec={"targetRef": {"name": "theirs"}}),
        thing("networking.k8s.io/v1", "NetworkPolicy", SYSTEM, spec={"podSelector": {}}),
        thing("policy/v1", "PodDisruptionBudget", SYSTEM, spec={"selector": {}}),
    ],
    ids=str,
)
def test_nothing_limits_or_scales_pods_of_others(found: KubernetesObject) -> None:
    assert denied_by(policy(), found) == ["spec.podLabels: it selects everything; no label of it is listed"]
    assert denied_by(policy(pod_labels=("*",)), found) == []


def test_module_scales_its_own() -> None:
    own = thing("apps/v1", "Deployment", SYSTEM, "other")
    scaler = thing("autoscaling/v2", "HorizontalPodAutoscaler", SYSTEM, spec={"scaleTargetRef": {"name": "other"}})
    named = thing("autoscaling/v2", "HorizontalPodAutoscaler", SYSTEM, spec={"scaleTargetRef": {"name": "shop-api"}})

    assert denied_by(policy(), own, scaler, named) == []
    assert denied_by(policy(), thing("v1", "ConfigMap", SYSTEM, "other"), scaler) != []
    assert denied_by(policy(), thing("v1", "ResourceQuota"), thing("v1", "LimitRange")) == []


@pytest.mark.parametrize("role", ["view", "edit", "admin", "cluster-reader"])
def test_role_is_not_added_to_one_that_users_have(role: str) -> None:
    label = {f"rbac.authorization.k8s.io/aggregate-to-{role}": "true"}
    found = thing(RBAC, "ClusterRole", "", metadata={"name": "x", "labels": label})
    needed = needed_policy([found], "shop", default_namespace="d")

    (message,) = denied_by(policy(), found)

    assert message == (
        f"spec.clusterResources: does not list ClusterRole aggregate-to-{role}, as which its rules are granted"
    )
    assert denied_by(ModuleRules("shop", needed), found) == []


@pytest.mark.parametrize("kind", ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"])
@pytest.mark.parametrize(
    ("groups", "resources", "denied"),
    [
        ([""], ["secrets"], {"spec.secrets"}),
        ([""], ["*"], {"spec.secrets", "spec.podLabels"}),
        (["*"], ["*/*"], {"spec.secrets", "spec.podLabels"}),
        (["*"], ["secrets/status"], {"spec.secrets"}),
        ([""], ["pods/ephemeralcontainers"], {"spec.podLabels"}),
        (["apps"], ["deployments"], {"spec.podLabels"}),
        (["shop.example.com"], ["teas"], set()),
    ],
)
def test_webhook_sees_no_objects_of_others(
    kind: str, groups: list[str], resources: list[str], denied: set[str]
) -> None:
    webhook = {"name": "a", "rules": [{"apiGroups": groups, "resources": resources, "scope": "Namespaced"}]}
    own = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": OWN}}}
    found = thing(ADMISSION, kind, "", webhooks=[webhook])
    needed = needed_policy([found], "shop", default_namespace="d")

    changed = {"spec.podLabels"} if kind.startswith("Mutating") else set()
    assert {each.partition(":")[0] for each in denied_by(policy(), found)} == denied | changed
    assert denied_by(ModuleRules("shop", needed), found) == []
    assert denied_by(policy(), thing(ADMISSION, kind, "", webhooks=[{**webhook, **own}])) == []


CHANGED = (
    (["rbac.authorization.k8s.io"], ["clusterrolebindings"]),
    (["rbac.authorization.k8s.io"], ["*"]),
    (["operator.kyma-project.io"], ["kymas"]),
    (["shop.example.com"], ["*"]),
    (["", "shop.example.com"], ["teas", "nodes"]),
    (["discovery.k8s.io"], ["endpointslices"]),
)


@pytest.mark.parametrize(("groups", "resources"), CHANGED)
def test_webhook_changes_no_kinds_of_others(groups: list[str], resources: list[str]) -> None:
    crd = thing("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "teas.shop.example.com")
    allowed = policy(cluster_resources=(ClusterResource(group="*", kind="*", names=("*",)),))
    rule = {"apiGroups": groups, "resources": resources}
    mine = {"objectSelector": {"matchLabels": {"kyma-project.io/module": "shop"}}}

    def denied(kind: str, **more: Any) -> list[str]:
        return denied_by(allowed, crd, thing(ADMISSION, kind, "", webhooks=[{"name": "a", "rules": [rule], **more}]))

    assert denied("MutatingWebhookConfiguration") == ["spec.podLabels: it selects everything; no label of it is listed"]
    assert denied("MutatingWebhookConfiguration", **mine) == denied("ValidatingWebhookConfiguration") == []
    matched = {"matchConstraints": {"resourceRules": [rule]}}
    assert denied_by(allowed, crd, thing(ADMISSION, "MutatingAdmissionPolicy", "", spec=matched))


def test_webhook_of_one_namespace_changes_nothing_that_is_in_none() -> None:
    own = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": OWN}}}
    rule = {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["*"]}

    def denied(rule: dict[str, Any]) -> list[str]:
        webhook = {"name": "a", "rules": [rule], **own}
        return denied_by(policy(), thing(ADMISSION, "MutatingWebhookConfiguration", "", webhooks=[webhook]))

    assert denied(rule), "a ClusterRoleBinding is sent whatever the namespaces"
    assert denied({**rule, "scope": "Namespaced"}) == denied({"apiGroups": [""], "resources": ["pods"]}) == []


@pytest.mark.parametrize(
    ("group", "kind", "selecting"),
    [
        ("cilium.io/v2", "CiliumNetworkPolicy", {"endpointSelector": {"matchLabels": {"app": "skr"}}}),
        ("cilium.io/v2", "CiliumNetworkPolicy", {"endpointSelector": {}}),
        ("projectcalico.org/v3", "NetworkPolicy", {"selector": "app == 'skr'"}),
        ("crd.projectcalico.org/v1", "GlobalNetworkPolicy", {"selector": "all()"}),
    ],
)
def test_network_policy_of_others_selects_by_listed_labels(group: str, kind: str, selecting: dict[str, Any]) -> None:
    found = thing(group, kind, "" if kind.startswith("Global") else SYSTEM, spec=selecting)
    rules = policy(namespaces=(SYSTEM,))

    assert any(each.startswith("spec.podLabels: it selects ") for each in denied_by(rules, found))
    assert denied_by(policy(namespaces=(SYSTEM,), pod_labels=("*",)), found) == []


def test_target_that_is_named_by_its_group_is_the_modules_own() -> None:
    """So do policies of gateways and meshes: they have no apiVersion in their targets."""
    grpc = {"group": "gateway.networking.k8s.io", "kind": "GRPCRoute", "name": "calls"}
    limits = thing("gateway.envoyproxy.io/v1alpha1", "BackendTrafficPolicy", SYSTEM, spec={"targetRef": grpc})
    route = thing("gateway.networking.k8s.io/v1", "GRPCRoute", SYSTEM, "calls", spec={"hostnames": ["a.example.com"]})
    rules = policy(hosts=("a.example.com",))
    assert denied_by(rules, limits) != []
    assert denied_by(rules, route, limits) == []
