"""What a Module Manager may have in an SKR."""

import pytest

from kube_runtime import KubernetesObject
from lifecycle_manager.object_set import Allowance, UnknownAllowance, forbidden, is_protected, parse_allowances
from lifecycle_manager_api.crds import all_crds


def thing(api_version: str, kind: str, name: str = "x", namespace: str = "") -> KubernetesObject:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return KubernetesObject.of({"apiVersion": api_version, "kind": kind, "metadata": metadata}, 3)


RBAC = "rbac.authorization.k8s.io/v1"
ADMISSION = "admissionregistration.k8s.io/v1"


@pytest.mark.parametrize(
    ("wanted", "allowance"),
    [
        (thing(RBAC, "ClusterRole"), Allowance.CLUSTER_RBAC),
        (thing(RBAC, "ClusterRoleBinding"), Allowance.CLUSTER_RBAC),
        (thing("rbac.authorization.k8s.io/v1beta1", "ClusterRole"), Allowance.CLUSTER_RBAC),
        (thing(ADMISSION, "ValidatingWebhookConfiguration"), Allowance.ADMISSION),
        (thing(ADMISSION, "MutatingWebhookConfiguration"), Allowance.ADMISSION),
        (thing(ADMISSION, "ValidatingAdmissionPolicy"), Allowance.ADMISSION),
        (thing("apiregistration.k8s.io/v1", "APIService"), Allowance.ADMISSION),
        (thing("v1", "ConfigMap", namespace="kube-system"), Allowance.SYSTEM_NAMESPACES),
        (thing(RBAC, "RoleBinding", namespace="kube-public"), Allowance.SYSTEM_NAMESPACES),
        (thing("v1", "Namespace", "kube-system"), Allowance.SYSTEM_NAMESPACES),
    ],
    ids=str,
)
def test_object_beyond_a_module_needs_an_allowance(wanted: KubernetesObject, allowance: Allowance) -> None:
    reason = forbidden([wanted], ())

    assert reason is not None
    assert reason.startswith(f"document 3: {wanted} is ")
    assert allowance in reason
    assert forbidden([wanted], {allowance}) is None
    assert forbidden([wanted], set(Allowance) - {allowance}) is not None


@pytest.mark.parametrize(
    "own",
    [
        thing("operator.kyma-project.io/v1beta2", "Kyma", "default", "kyma-system"),
        thing("operator.kyma-project.io/v1beta1", "ModuleTemplate", "any"),
        thing("apiextensions.k8s.io/v1", "CustomResourceDefinition", "kymas.operator.kyma-project.io"),
        thing("apps/v1", "Deployment", "skr-webhook", "kyma-system"),
        thing("v1", "Secret", "skr-webhook-tls", "kyma-system"),
        thing(ADMISSION, "ValidatingWebhookConfiguration", "skr-webhook"),
        thing("scheduling.k8s.io/v1", "PriorityClass", "skr-webhook-priority"),
        thing("v1", "Namespace", "kyma-system"),
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
    assert forbidden([own], set(Allowance)) == f"document 3: {own} belongs to the Lifecycle Manager"


@pytest.mark.parametrize(
    "harmless",
    [
        thing("v1", "ConfigMap", "skr-webhook", "other"),
        thing("v1", "ConfigMap", "a", "kyma-system"),
        thing("operator.kyma-project.io/v1alpha1", "Serverless", "default", "kyma-system"),
        thing("apiextensions.k8s.io/v1", "CustomResourceDefinition", "things.example.com"),
        thing("v1", "Namespace", "shop"),
        thing("example.com/v1", "CustomResourceDefinition", "kymas.operator.kyma-project.io"),
        thing("example.com/v1", "ClusterRole", "lifecycle-manager"),
        thing(RBAC, "Role", "reader", "shop"),
    ],
    ids=str,
)
def test_a_modules_own_objects_need_no_word(harmless: KubernetesObject) -> None:
    assert forbidden([harmless], ()) is None


def test_every_crd_of_ours_is_protected() -> None:
    for crd in all_crds():
        assert is_protected(KubernetesObject.of(crd))


def test_allowances_are_read_and_typos_are_named() -> None:
    assert parse_allowances(["a=cluster-rbac", "a=admission", "b=admission"]) == {
        "a": {Allowance.CLUSTER_RBAC, Allowance.ADMISSION},
        "b": {Allowance.ADMISSION},
    }
    for text in ("a", "a=", "=admission", "a=cluster_rbac"):
        with pytest.raises(UnknownAllowance, match="write MODULE=ALLOWANCE, with one of cluster-rbac, admission"):
            parse_allowances([text])
