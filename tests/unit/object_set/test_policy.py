"""What a module may have in an SKR, and the attacks of a module team that its policy refuses."""

from typing import Any

import msgspec
import pytest

from kube_runtime import InventoryEntry, KubernetesObject
from lifecycle_manager.object_set.protected import is_protected
from lifecycle_manager.object_set.rules import held_back, objections
from lifecycle_manager_api import ClusterResource, KindRule, ModulePolicySpec, NamespacedResources
from lifecycle_manager_api.crds import all_crds
from lifecycle_manager_api.needed_policy import needed_policy
from lifecycle_manager_api.policy_checks import ModuleRules
from tests.policies import anything

RBAC = "rbac.authorization.k8s.io/v1"
ADMISSION = "admissionregistration.k8s.io/v1"
SYSTEM = "kyma-system"
DEFAULTS = ModuleRules("shop")


def thing(api_version: str, kind: str, name: str = "x", namespace: str = "", **content: Any) -> KubernetesObject:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return KubernetesObject.of({"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}, 3)


def daemon_set(pod: dict[str, Any], namespace: str = SYSTEM) -> KubernetesObject:
    return thing("apps/v1", "DaemonSet", "spy", namespace, spec={"template": {"spec": pod}})


def policy(*listed: str, **fields: Any) -> ModuleRules:
    """Return the policy of `shop` with these kinds of `group/Kind`, by any name, in kyma-system."""
    allow = tuple(
        KindRule(group=group, kind=kind, names=("*",)) for group, _, kind in (each.rpartition("/") for each in listed)
    )
    return ModuleRules("shop", ModulePolicySpec(namespaced_resources=NamespacedResources(allow=allow), **fields))


def denied_by(rules: ModuleRules, *things: KubernetesObject) -> list[str]:
    return [str(each) for each in objections(things, rules, default_namespace="default")]


def test_role_binding_to_cluster_admin_is_refused() -> None:
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    binding = thing(RBAC, "RoleBinding", "admin", SYSTEM, roleRef=role)
    denied = (
        "document 3: RoleBinding kyma-system/admin: spec.namespacedResources.deny: "
        "lists RoleBinding of rbac.authorization.k8s.io"
    )

    assert denied in denied_by(DEFAULTS, binding)
    assert denied_by(policy("rbac.authorization.k8s.io/RoleBinding"), binding) == [denied]


def test_token_of_another_service_account_is_refused() -> None:
    metadata = {
        "name": "t",
        "namespace": SYSTEM,
        "annotations": {"kubernetes.io/service-account.name": "other-operator"},
    }
    document = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token"}
    token = KubernetesObject.of({**document, "metadata": metadata}, 0)

    assert denied_by(policy("/Secret"), token) == [
        (
            "document 0: Secret kyma-system/t: spec.serviceAccounts: "
            "it is a token of ServiceAccount 'other-operator', which is not listed"
        )
    ]
    assert denied_by(policy("/Secret", service_accounts=("other-*",)), token) == []


def test_privileged_daemon_set_with_the_watchers_secret_is_refused() -> None:
    volumes = [
        {"name": "node", "hostPath": {"path": "/"}},
        {"name": "tls", "secret": {"secretName": "skr-webhook-tls"}},
    ]
    containers = [{"name": "sh", "image": "sh", "securityContext": {"privileged": True}}]
    spy = daemon_set({"volumes": volumes, "containers": containers})
    place = "document 3: DaemonSet kyma-system/spy: "

    assert denied_by(policy("apps/DaemonSet", secrets=("*",)), spy) == [
        f"{place}spec.secrets: it uses Secret skr-webhook-tls, which is not listed",
        f"{place}spec.podSecurity baseline: Privileged Containers: container sh is privileged",
        f"{place}spec.podSecurity baseline: HostPath Volumes: volume node is a hostPath",
        f"{place}protected: it refers to skr-webhook-tls, which belongs to the Lifecycle Manager",
    ]


@pytest.mark.parametrize(
    "use",
    [
        {"volumes": [{"name": "a", "projected": {"sources": [{"secret": {"name": "theirs"}}]}}]},
        {"volumes": [{"name": "a", "csi": {"driver": "d", "nodePublishSecretRef": {"name": "theirs"}}}]},
        {"containers": [{"name": "a", "envFrom": [{"secretRef": {"name": "theirs"}}]}]},
        {"initContainers": [{"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "theirs", "key": "a"}}}]}]},
        {"imagePullSecrets": [{"name": "theirs"}]},
    ],
    ids=lambda use: next(iter(use)),
)
def test_every_use_of_a_foreign_secret_is_found(use: dict[str, Any]) -> None:
    assert denied_by(policy("apps/DaemonSet"), daemon_set(use)) == [
        "document 3: DaemonSet kyma-system/spy: spec.secrets: it uses Secret theirs, which is not listed"
    ]
    own = thing("v1", "Secret", "theirs", SYSTEM)
    assert denied_by(policy("apps/DaemonSet", "/Secret"), daemon_set(use), own) == []
    assert denied_by(DEFAULTS, daemon_set(use, "shop")) == []


@pytest.mark.parametrize("field", ["serviceAccountName", "serviceAccount"])
def test_pods_run_as_accounts_of_their_module(field: str) -> None:
    spy = daemon_set({field: "other-operator"})
    own = thing("v1", "ServiceAccount", "other-operator", SYSTEM)

    (message,) = denied_by(policy("apps/DaemonSet"), spy)

    assert "spec.serviceAccounts: its Pods run as ServiceAccount other-operator" in message
    assert denied_by(policy("apps/DaemonSet", service_accounts=("other-operator",)), spy) == []
    assert denied_by(policy("apps/DaemonSet", "/ServiceAccount"), spy, own) == []
    assert denied_by(policy("apps/DaemonSet"), daemon_set({field: "default"})) == []


@pytest.mark.parametrize("field", ["serviceAccountName", "serviceAccount", "serviceAccountRef"])
@pytest.mark.parametrize("named", [{"name": "theirs"}, {"name": {"a": 1}}, [{"name": "theirs"}], [], 1, None])
def test_account_of_another_module_is_found_in_whatever_form_it_is_named(field: str, named: Any) -> None:
    """A store of secrets, a workflow or a log collector has its account as an object."""
    other = thing("stores.example.com/v1", "Store", "mine", SYSTEM, spec={"auth": {field: named, "image": "a"}})
    found = denied_by(policy("stores.example.com/Store"), other)
    assert [each.partition("ServiceAccount ")[2] for each in found] == (
        ["theirs, which is not listed"] if named == {"name": "theirs"} else []
    )


@pytest.mark.parametrize(
    "wanted",
    [
        thing(RBAC, "ClusterRole"),
        thing(RBAC, "ClusterRole", namespace="shop"),
        thing("rbac.authorization.k8s.io/v1beta1", "ClusterRole"),
        thing(ADMISSION, "ValidatingWebhookConfiguration"),
        thing(ADMISSION, "MutatingAdmissionPolicy", namespace="shop"),
        thing("apiregistration.k8s.io/v1", "APIService"),
        thing("apiextensions.k8s.io/v1", "CustomResourceDefinition", "things.example.com"),
        thing("v1", "PersistentVolume", namespace="shop"),
        thing("v1", "Namespace", "elsewhere"),
    ],
    ids=str,
)
def test_cluster_scoped_object_needs_a_line_whatever_its_namespace_says(wanted: KubernetesObject) -> None:
    group = wanted.api_version.rpartition("/")[0]
    named = ClusterResource(group=group, kind=wanted.kind, names=(wanted.name,))

    (message,) = denied_by(DEFAULTS, wanted)

    assert message.startswith(f"document 3: {wanted.kind} {wanted.name}: spec.clusterResources: ")
    assert denied_by(policy(cluster_resources=(named,)), wanted) == []
    other = msgspec.structs.replace(named, names=("y*",))
    assert denied_by(policy(cluster_resources=(other,)), wanted)


def test_objects_stay_in_the_modules_namespaces() -> None:
    everywhere = policy(namespaces=("*",))

    assert denied_by(DEFAULTS, thing("v1", "ConfigMap", namespace="shop"), thing("v1", "Namespace", "shop")) == []
    assert denied_by(policy("/ConfigMap"), thing("v1", "ConfigMap", namespace=SYSTEM)) == []
    assert "spec.namespaces: " in denied_by(DEFAULTS, thing("v1", "ConfigMap", namespace="elsewhere"))[0]
    assert "spec.namespacedResources.allow: " in denied_by(DEFAULTS, thing("v1", "ConfigMap", namespace=SYSTEM))[0]
    assert denied_by(everywhere, thing("v1", "ConfigMap", namespace="elsewhere")) == []
    for system in ("kube-system", "kube-public", SYSTEM):
        assert denied_by(everywhere, thing("v1", "ConfigMap", namespace=system)), system
    assert denied_by(policy(namespaces=("kube-system",)), thing("v1", "ConfigMap", namespace="kube-system")) == []


def test_folder_of_a_node_as_a_persistent_volume_is_refused() -> None:
    volumes = ClusterResource(kind="PersistentVolume", names=("*",))
    rules = policy(cluster_resources=(volumes,))

    (message,) = denied_by(rules, thing("v1", "PersistentVolume", spec={"hostPath": {"path": "/"}}))

    assert "spec.podSecurity baseline: HostPath Volumes" in message
    assert denied_by(rules, thing("v1", "PersistentVolume", spec={"nfs": {"path": "/", "server": "a"}})) == []


@pytest.mark.parametrize(
    "own",
    [
        thing("operator.kyma-project.io/v1beta2", "Kyma", "default", SYSTEM),
        thing("operator.kyma-project.io/v1beta1", "ModuleTemplate", "any", SYSTEM),
        thing("apiextensions.k8s.io/v1", "CustomResourceDefinition", "kymas.operator.kyma-project.io"),
        thing("apps/v1", "Deployment", "skr-webhook", SYSTEM),
        thing("v1", "Secret", "skr-webhook-tls", SYSTEM),
        thing(ADMISSION, "ValidatingWebhookConfiguration", "skr-webhook"),
        thing("scheduling.k8s.io/v1", "PriorityClass", "skr-webhook-priority"),
        thing("v1", "Namespace", SYSTEM),
        thing(RBAC, "ClusterRoleBinding", "lifecycle-manager"),
        thing(ADMISSION, "ValidatingWebhookConfiguration", "skr-webhook", "elsewhere"),
        thing("scheduling.k8s.io/v1", "PriorityClass", "skr-webhook-priority", "elsewhere"),
        thing(RBAC, "ClusterRole", "skr-webhook", "elsewhere"),
        thing("v1", "Namespace", "kyma-system", "elsewhere"),
        thing("apiextensions.k8s.io/v1", "CustomResourceDefinition", "kymas.operator.kyma-project.io", "elsewhere"),
    ],
    ids=str,
)
def test_what_is_the_lifecycle_managers_own_cannot_be_allowed(own: KubernetesObject) -> None:
    assert is_protected(own)
    assert f"document 3: {own}: protected: it belongs to the Lifecycle Manager" in denied_by(anything(), own)


def test_policy_can_allow_everything_else() -> None:
    role = thing(RBAC, "ClusterRole")
    spy = daemon_set({"hostNetwork": True, "serviceAccountName": "any", "imagePullSecrets": [{"name": "any"}]})
    assert denied_by(anything("shop"), role, spy, thing(RBAC, "RoleBinding", namespace=SYSTEM)) == []


@pytest.mark.parametrize(
    "harmless",
    [
        thing("example.com/v1", "CustomResourceDefinition", "kymas.operator.kyma-project.io"),
        thing("example.com/v1", "ClusterRole", "lifecycle-manager"),
    ],
    ids=str,
)
def test_kinds_of_other_groups_are_not_protected(harmless: KubernetesObject) -> None:
    assert not is_protected(harmless)


def test_every_crd_of_ours_is_protected() -> None:
    for crd in all_crds():
        assert is_protected(KubernetesObject.of(crd))


def test_object_that_a_module_may_not_have_is_not_deleted_for_it() -> None:
    crd = InventoryEntry("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "", "theirs.example.com")
    own = InventoryEntry("", "v1", "ConfigMap", "shop", "own")

    held, why = held_back([crd, own], DEFAULTS)

    assert held == (crd,)
    assert [str(each) for each in why] == [
        (
            "CustomResourceDefinition theirs.example.com: spec.clusterResources: "
            "does not list CustomResourceDefinition of apiextensions.k8s.io with this name"
        )
    ]
    assert held_back([crd, own], None) == ((), ())


def test_needed_policy_allows_the_objects_it_was_made_for() -> None:
    spy = daemon_set({"hostNetwork": True, "serviceAccountName": "any", "imagePullSecrets": [{"name": "pull"}]})
    objects = (
        spy,
        thing(RBAC, "RoleBinding", namespace=SYSTEM),
        thing(RBAC, "ClusterRole", "reader"),
        thing("v1", "ConfigMap", namespace="elsewhere"),
    )
    needed = needed_policy(objects, "shop", default_namespace="default")

    assert denied_by(ModuleRules("shop", needed), *objects) == []
    assert (needed.pod_security, needed.service_accounts, needed.secrets) == ("privileged", ("any",), ("pull",))
    assert needed.namespaces == ("elsewhere", SYSTEM, "shop")
    own = thing("v1", "ConfigMap", namespace="shop")
    assert needed_policy([own], "shop", default_namespace="default") == ModulePolicySpec(pod_security="restricted")
