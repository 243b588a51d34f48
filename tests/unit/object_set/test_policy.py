"""What a Module Manager may have in a user's cluster, and whose an object is."""

from collections.abc import Callable

import pytest

from kube_runtime import InventoryEntry, KubernetesObject, ObjectKey, parse_objects
from lifecycle_manager.object_set.protected import is_protected
from lifecycle_manager.sync_resource import UnknownAllowance, claim_index, parse_allowances
from lifecycle_manager.sync_resource.claims import Claim, ClaimBook, claim_key, taken, unresolved_entries
from lifecycle_manager.sync_resource.plan import ApplyObjects, Refuse, plan, refused
from lifecycle_manager.sync_resource.policy import Allowance, forbidden
from lifecycle_manager_api.crds import all_crds
from tests import builders


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
def test_what_reaches_beyond_a_module_needs_a_word(wanted: KubernetesObject, allowance: Allowance) -> None:
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


CONFIG_MAP = thing("v1", "ConfigMap", "one", "shop")
ENTRY = InventoryEntry("", "v1", "ConfigMap", "shop", "one")


NOW, LATER = ("2026-01-01", "b"), ("2026-02-02", "a")


def claimed(*claims: Claim) -> Callable[[KubernetesObject], tuple[Claim, ...]]:
    return lambda _: claims


def test_the_first_that_claims_an_object_has_it() -> None:
    (conflict,) = taken([CONFIG_MAP], (), NOW, claimed(Claim(ENTRY, *LATER)))

    assert str(conflict) == "document 3: ConfigMap shop/one (v1) belongs to SyncResource a"
    assert taken([CONFIG_MAP], (ENTRY,), NOW, claimed()) == ()


def test_an_object_that_both_have_belongs_to_the_older() -> None:
    assert taken([CONFIG_MAP], (ENTRY,), NOW, claimed(Claim(ENTRY, *LATER))) == ()
    assert [each.claim.owner for each in taken([CONFIG_MAP], (ENTRY,), LATER, claimed(Claim(ENTRY, *NOW)))] == ["b"]


@pytest.mark.parametrize(
    ("entry", "wanted", "same"),
    [
        (ENTRY, thing("v1", "ConfigMap", "one", "other"), False),
        (ENTRY, thing("v2", "ConfigMap", "one", "shop"), True),
        (InventoryEntry("", "v1", "ConfigMap", "default", "one"), thing("v1", "ConfigMap", "one"), True),
        (InventoryEntry("", "v1", "Namespace", "", "one"), thing("v1", "Namespace", "one"), True),
        (InventoryEntry("", "v1", "Namespace", "", "one"), thing("v1", "Namespace", "one", "ignored"), True),
    ],
)
def test_objects_are_the_same_in_the_same_place(entry: InventoryEntry, wanted: KubernetesObject, same: bool) -> None:
    assert bool(taken([wanted], (), NOW, claimed(Claim(entry, *LATER)))) is same


def test_book_knows_what_is_about_to_be_recorded_and_forgets_what_is_given_up() -> None:
    book, key = ClaimBook(), ObjectKey("kcp-system", "first")
    place = claim_key("demo", "", "ConfigMap", "one")

    book.note(key, "demo", unresolved_entries([CONFIG_MAP]))
    assert book.owners(place) == ((key, ENTRY),)
    assert book.owners(claim_key("other", "", "ConfigMap", "one")) == ()

    book.note(key, "demo", ())
    assert book.owners(place) == ()
    book.note(key, "demo", [ENTRY])
    book.drop(key)
    assert book.owners(place) == ()
    book.drop(key)


def test_status_is_indexed_by_what_it_claims() -> None:
    resource = builders.sync_resource(
        status={"synced": [{"group": "", "version": "v1", "kind": "ConfigMap", "namespace": "shop", "name": "one"}]}
    )
    assert list(claim_index(resource)) == [claim_key("demo", "", "ConfigMap", "one")]


TEXT = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one, namespace: shop}\n"


def test_conflict_refuses_the_whole_text_and_gives_up_the_claim() -> None:
    resource = builders.sync_resource(
        text=TEXT,
        status={"synced": [{"group": "", "version": "v1", "kind": "ConfigMap", "namespace": "shop", "name": "one"}]},
    )
    other = Claim(ENTRY, "0000-01-01", "other")

    step = plan(resource, builders.kyma(), claimed=claimed(other))

    assert isinstance(step, Refuse)
    assert step.refusal.reason == "Conflict"
    assert "belongs to SyncResource other" in step.refusal.message
    assert refused(resource, step.refusal, builders.NOW).synced == ()


def test_namespaces_are_made_only_where_asked_for() -> None:
    text = TEXT + "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: own}\n---\n" + TEXT.replace("shop", "own")
    asked = builders.sync_resource(text=text, annotations={"operator.kyma-project.io/create-namespaces": "true"})
    steps = [plan(each, builders.kyma()) for each in (asked, builders.sync_resource(text=text))]

    assert [step.namespaces for step in steps if isinstance(step, ApplyObjects)] == [("shop",), ()]


def test_forbidden_object_refuses_the_whole_text() -> None:
    text = TEXT + "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: all}\n"
    assert len(parse_objects(text)) == 2

    step = plan(builders.sync_resource(text=text), builders.kyma())

    assert isinstance(step, Refuse)
    assert step.refusal.reason == "Forbidden"
    assert step.refusal.message.startswith("document 1: ClusterRole all")
    assert isinstance(plan(builders.sync_resource(text=text), builders.kyma(), allowed=set(Allowance)), ApplyObjects)
