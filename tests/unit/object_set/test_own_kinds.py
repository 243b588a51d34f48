"""A kind is a module's own by its CRD: not by what only has the name of that kind, or is named after another group."""

import pytest

from kube_runtime import KubernetesObject
from lifecycle_manager.module_catalog.module_kinds import kinds_of_crds
from lifecycle_manager.module_installation.rendering import Renderings
from lifecycle_manager.module_sources.parsing import ModuleObjects
from lifecycle_manager.object_set.inventory import scopes_of
from lifecycle_manager.object_set.rules import objections
from lifecycle_manager_api import ClusterResource, ModulePolicySpec
from lifecycle_manager_api.policy_checks import ModuleRules
from tests.unit.object_set.test_policy_of_kinds import ADMISSION, denied_by, policy, thing

CRD, CRDS = "CustomResourceDefinition", "apiextensions.k8s.io"
NAMED = ModulePolicySpec(cluster_resources=(ClusterResource(group=CRDS, kind=CRD, names=("*.shop.example.com",)),))
THEIRS = (
    thing("argoproj.io/v1alpha1", "Application", spec={"project": "default"}),
    thing("cert-manager.io/v1", "ClusterIssuer", "", spec={"ca": {}}),
)


def claim(group: str, kind: str, name: str, api_version: str = "shop.example.com/v1") -> KubernetesObject:
    """Return an object that says of itself that it defines a kind."""
    spec = {"group": group, "names": {"kind": kind, "plural": "teas"}, "scope": "Namespaced"}
    return thing(api_version, CRD, "" if CRDS in api_version else "shop", name, spec=spec)


CLAIMS = {
    "no CRDs at all": (
        claim("shop.example.com", CRD, "a"),
        claim("argoproj.io", "Application", "b"),
        claim("cert-manager.io", "ClusterIssuer", "c"),
    ),
    "CRDs named after another group": (
        claim("argoproj.io", "Application", "teas.shop.example.com", f"{CRDS}/v1"),
        claim("cert-manager.io", "ClusterIssuer", "cups.shop.example.com", f"{CRDS}/v1"),
    ),
}


@pytest.mark.parametrize("claims", CLAIMS.values(), ids=CLAIMS)
def test_kind_of_others_is_not_allowed_by_what_claims_to_define_it(claims: tuple[KubernetesObject, ...]) -> None:
    for each in THEIRS:
        assert denied_by(ModuleRules("shop", NAMED), each) != []
        assert denied_by(ModuleRules("shop", NAMED), *claims, each) != []


@pytest.mark.parametrize("claims", CLAIMS.values(), ids=CLAIMS)
def test_cluster_is_asked_for_the_scopes_of_kinds_of_others(claims: tuple[KubernetesObject, ...]) -> None:
    rendering = Renderings("shop").of(ModuleObjects("digest", (*claims, *THEIRS)))
    assert {each.kind for each in rendering.of_known_kinds} >= {each.kind for each in THEIRS}
    own = scopes_of(rendering.own_kinds)
    assert objections(rendering.objects, ModuleRules("shop", NAMED), own, default_namespace="shop")


@pytest.mark.parametrize("claims", CLAIMS.values(), ids=CLAIMS)
def test_watcher_reports_no_kind_by_what_claims_to_define_it(claims: tuple[KubernetesObject, ...]) -> None:
    assert kinds_of_crds(claims, "shop") == ()


@pytest.mark.parametrize(
    ("group", "resource"),
    [("rbac.authorization.k8s.io", "clusterrolebindings"), ("", "pods")],
    ids=["bindings", "Pods"],
)
def test_webhook_changes_no_kinds_of_others_by_what_is_named_as_their_crd(group: str, resource: str) -> None:
    allowed = policy(cluster_resources=(ClusterResource(group="*", kind="*", names=("*",)),))
    webhook = {"name": "a", "rules": [{"apiGroups": [group], "resources": [resource], "scope": "*"}]}
    changing = thing(ADMISSION, "MutatingWebhookConfiguration", "", webhooks=[webhook])
    named = thing("shop.example.com/v1", CRD, "shop", f"{resource}.{group}")
    assert denied_by(allowed, changing) != []
    assert denied_by(allowed, named, changing) != []
