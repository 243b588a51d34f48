"""What is applied and deleted for a SyncResource, and what its status says after that."""

from typing import Any

import msgspec
import pytest

from kube_runtime import ApplyResult, InventoryEntry, ObjectOutcome, parse_objects
from lifecycle_manager.object_set.inventory import inventory_of, known_inventory
from lifecycle_manager.object_set.ownership import Claim, claim_key
from lifecycle_manager.skr.failure import SkrFailure
from lifecycle_manager.sync_resource import rules
from lifecycle_manager.sync_resource import status as statuses
from lifecycle_manager.sync_resource.snapshot import SyncResourceSnapshot, claim_index, read_text
from lifecycle_manager.sync_resource.status import Refusal, TooManyObjects, begun
from lifecycle_manager_api import (
    KindRule,
    Kyma,
    ModulePolicySpec,
    NamespacedResources,
    State,
    SyncResource,
    SyncResourceStatus,
    find,
    names,
)
from lifecycle_manager_api.policy_checks import ModuleRules
from tests import builders
from tests.policies import anything
from tests.sets import RecordedSet
from tests.unit.sync_resource.sets import reconciled

CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one, namespace: kyma-system}\n"
ENTRY = InventoryEntry("", "v1", "ConfigMap", "kyma-system", "one")
SYNCED = [{"group": "", "version": "v1", "kind": "ConfigMap", "namespace": "kyma-system", "name": "one"}]
DELETING = "2026-11-01T12:00:00Z"
LISTED = NamespacedResources(allow=(KindRule(kind="ConfigMap", names=("*",)),))


def outcome(error: str | None = None, live: dict[str, Any] | None = None) -> ObjectOutcome:
    return ObjectOutcome(entry=ENTRY, index=0, action="failed" if error else "created", error=error, live=live)


def snapshot(resource: SyncResource, kyma: Kyma | None, **given: Any) -> SyncResourceSnapshot:
    known: dict[str, Any] = {"rules": anything()}
    text = read_text(resource.spec.resource)
    own = known_inventory(resource, ())
    return SyncResourceSnapshot(
        resource=resource,
        kyma=kyma,
        now=builders.NOW,
        **{"inventory": own, "text": text} | known | given,
    )


def result(
    resource: SyncResource, kyma: Kyma | None, wanted: frozenset[InventoryEntry] | None = None, **given: Any
) -> RecordedSet:
    """Return what a reconcile has done; `wanted` is what the text resolves to in the SKR."""
    return reconciled(snapshot(resource, kyma, **given), RecordedSet(wanted))


def reason(done: RecordedSet) -> tuple[str, str]:
    """Return reason and message of the condition Valid that a reconcile writes; it has applied nothing."""
    assert not done.applied
    valid = find(status_of(done).conditions, "Valid")
    assert valid is not None
    return valid.reason, valid.message


def status_of(done: RecordedSet) -> SyncResourceStatus:
    """Return the status that a reconcile writes."""
    (status,) = done.statuses
    assert isinstance(status, SyncResourceStatus)
    return status


def after(resource: SyncResource, *intended: InventoryEntry) -> SyncResource:
    """Return a SyncResource whose intent is recorded."""
    return msgspec.structs.replace(resource, status=begun(resource, intended))


def test_intent_is_recorded_once_and_in_the_status() -> None:
    resource = builders.sync_resource(generation=3)

    written = after(resource, ENTRY)

    assert inventory_of(written) == (ENTRY,)
    assert written.status.state is State.PROCESSING
    assert written.status.observed_generation is None
    assert after(written, ENTRY) == written


def test_what_comes_later_in_a_generation_is_added_to_what_came_before() -> None:
    other = InventoryEntry("", "v1", "ConfigMap", "kyma-system", "two")
    begun_before = after(builders.sync_resource(generation=3), ENTRY)

    assert inventory_of(after(begun_before, ENTRY, other)) == (ENTRY, other)


def test_intent_without_new_objects_leaves_the_status_as_it_is() -> None:
    resource = builders.sync_resource(status={"synced": SYNCED, "state": "Ready"})

    assert begun(resource, (ENTRY,)) == resource.status


def test_intended_object_is_claimed_before_it_is_applied() -> None:
    assert list(claim_index(after(builders.sync_resource(), ENTRY))) == [claim_key("demo", "", "ConfigMap", "one")]


def test_annotation_of_earlier_versions_names_nothing() -> None:
    text = '{"generation": 1, "objects": [["", "v1", "ConfigMap", "kyma-system", "one"]]}'
    forged = builders.sync_resource(annotations={"operator.kyma-project.io/intended-objects": text})

    assert inventory_of(forged) == ()
    assert list(claim_index(forged)) == []


def test_refusal_after_an_interrupted_apply_keeps_the_intended_objects() -> None:
    interrupted = after(builders.sync_resource(generation=4, text="kind: ["), ENTRY)

    for status in (
        statuses.refused(interrupted, Refusal("InvalidResource", "bad"), builders.NOW),
        statuses.unreachable(interrupted, SkrFailure("ClusterUnreachable", "no answer"), builders.NOW),
    ):
        assert [(each.name, each.state) for each in status.synced] == [("one", State.PROCESSING)]


def test_deletion_after_an_interrupted_apply_deletes_the_intended_objects() -> None:
    interrupted = after(builders.sync_resource(deletionTimestamp=DELETING), ENTRY)

    assert result(interrupted, builders.kyma()).deleted == [ENTRY]


@pytest.mark.parametrize("metadata", [{}, {"deletionTimestamp": DELETING}])
def test_objects_of_a_paused_kyma_stay_as_they_are_until_it_is_deleted(metadata: dict[str, Any]) -> None:
    status = {"synced": SYNCED, "state": "Ready"}
    resource = builders.sync_resource(text="", status=status, **metadata)
    paused = {names.SKIP_RECONCILIATION: "true"}
    done = result(resource, builders.kyma(labels=paused))
    assert (done.statuses, done.requests) == ([resource.status], [])
    leaving = result(resource, builders.kyma(labels=paused, deletionTimestamp=DELETING))
    assert leaving.is_finalizer_removed or leaving.statuses != [resource.status]


def test_too_many_objects_are_refused_before_any_is_applied() -> None:
    many = tuple(InventoryEntry("", "v1", "ConfigMap", "shop", f"name-{number:05d}") for number in range(9000))

    with pytest.raises(TooManyObjects, match="9000 objects are too many; split them"):
        begun(builders.sync_resource(generation=1), many)


def test_object_that_the_cluster_resolves_to_one_of_ours_is_refused() -> None:
    ours = InventoryEntry("", "v1", "Secret", "kyma-system", "skr-webhook-tls")

    done = result(builders.sync_resource(text=CONFIG_MAP), builders.kyma(), wanted=frozenset({ours}))

    assert reason(done) == (
        "Forbidden",
        "these objects belong to the Lifecycle Manager: Secret kyma-system/skr-webhook-tls",
    )


def test_text_that_is_no_yaml_is_refused() -> None:
    done = result(builders.sync_resource(text="kind: ["), builders.kyma())
    assert reason(done)[0] == "InvalidResource"


@pytest.mark.parametrize(
    "second", ["name: one", "name: one, namespace: default"], ids=["default namespace", "named namespace"]
)
def test_text_that_has_an_object_twice_is_refused(second: str) -> None:
    text = "".join(f"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{{each}}}\n" for each in ("name: one", second))
    _, message = reason(result(builders.sync_resource(text=text), builders.kyma()))
    assert message.startswith("document 1: ConfigMap")
    assert message.endswith("stands in document 0 already")


def test_cluster_wide_object_is_the_same_in_each_namespace() -> None:
    text = "".join(f"---\napiVersion: x/v1\nkind: Wide\nmetadata: {{name: one, namespace: {each}}}\n" for each in "ab")
    resource = builders.sync_resource(text=text)
    wide = frozenset({InventoryEntry("x", "v1", "Wide", "", "one")})
    narrow = frozenset(InventoryEntry("x", "v1", "Wide", each, "one") for each in "ab")
    assert reason(result(resource, builders.kyma(), wanted=wide)) == (
        "InvalidResource",
        "document 1: Wide b/one (x/v1) stands in document 0 already",
    )
    assert result(resource, builders.kyma(), wanted=narrow).recorded == [tuple(sorted(narrow))]


def test_name_that_no_path_has_is_refused_at_admission() -> None:
    resource = builders.sync_resource(text=CONFIG_MAP.replace("name: one", "name: '..'"))
    error = rules.objection_to(resource, ModuleRules("garden", ModulePolicySpec(namespaced_resources=LISTED)))
    assert (
        error == "spec.resource: document 0: invalid metadata.name '..': expected other than . and .., without / and %"
    )


def test_resource_of_no_kyma_is_refused_and_of_a_leaving_one_too() -> None:
    resource = builders.sync_resource(text=CONFIG_MAP)
    assert reason(result(resource, None))[0] == "KymaNotFound"
    assert reason(result(resource, builders.kyma(deletionTimestamp=DELETING)))[0] == "KymaDeleting"


def test_deletion_removes_objects_first() -> None:
    resource = builders.sync_resource(status={"synced": SYNCED}, deletionTimestamp=DELETING)
    done = result(resource, builders.kyma())
    assert (done.deleted, done.is_finalizer_removed) == ([ENTRY], True)
    empty = result(builders.sync_resource(deletionTimestamp=DELETING), builders.kyma())
    assert (empty.requests, empty.is_finalizer_removed) == ([], True)


def test_failure_names_document_object_and_the_servers_words() -> None:
    result = ApplyResult(outcomes=(outcome("quota exceeded"),), inventory=(ENTRY,))
    status = statuses.applied(builders.sync_resource(), result, builders.NOW)
    applied = find(status.conditions, "Applied")
    assert applied is not None
    assert applied.message == "document 0: ConfigMap kyma-system/one: quota exceeded"
    assert status.state is State.ERROR
    assert status.synced[0].state is State.ERROR


def test_thousands_of_failures_end_in_a_status_that_can_be_stored() -> None:
    entries = [InventoryEntry("", "v1", "ConfigMap", "kyma-system", f"number-{number}") for number in range(1000)]
    failures = tuple(
        ObjectOutcome(entry=entry, index=index, action="failed", error="no" * 100, live=None)
        for index, entry in enumerate(entries)
    )
    status = statuses.applied(builders.sync_resource(), ApplyResult(failures, ()), builders.NOW)
    assert status.state is State.ERROR
    assert all(len(condition.message) <= 32_768 for condition in status.conditions)


TEXT = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one, namespace: shop}\n"


def test_conflict_refuses_the_whole_text_and_gives_up_the_claim() -> None:
    resource = builders.sync_resource(
        text=TEXT,
        status={"synced": [{"group": "", "version": "v1", "kind": "ConfigMap", "namespace": "shop", "name": "one"}]},
    )
    shop = InventoryEntry("", "v1", "ConfigMap", "shop", "one")

    done = result(resource, builders.kyma(), claims=(Claim(shop, "0000-01-01", "other"),))

    assert reason(done)[0] == "Conflict"
    assert "belongs to SyncResource other" in reason(done)[1]
    assert status_of(done).synced == ()


def test_namespaces_are_made_only_where_asked_for() -> None:
    text = TEXT + "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: own}\n---\n" + TEXT.replace("shop", "own")
    asked = builders.sync_resource(text=text, annotations={"operator.kyma-project.io/create-namespaces": "true"})
    done = [result(each, builders.kyma()) for each in (asked, builders.sync_resource(text=text))]

    assert [applied.namespaces for each in done for applied in each.applied] == [("shop",), ()]


def test_object_against_the_policy_refuses_the_whole_text() -> None:
    text = TEXT + "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: all}\n"
    assert len(parse_objects(text)) == 2
    own = ModulePolicySpec(namespaces=("shop",))

    done = result(builders.sync_resource(text=text), builders.kyma(), rules=ModuleRules("cloud-resources", own))

    message = (
        "document 1: ClusterRole all: spec.clusterResources: does not list ClusterRole of rbac.authorization.k8s.io"
    )
    assert reason(done) == ("PolicyViolation", f"{message} with this name")
    assert status_of(done).state is State.ERROR
    allowed = result(builders.sync_resource(text=text), builders.kyma(), wanted=frozenset({ENTRY}))
    assert allowed.recorded == [(ENTRY,)]


def test_scope_that_the_cluster_states_decides_over_the_namespace_in_the_text() -> None:
    text = "apiVersion: example.com/v1\nkind: Gate\nmetadata: {name: own, namespace: cloud-resources}\n"
    gates = NamespacedResources(allow=(KindRule(group="example.com", kind="Gate"),))
    given: dict[str, Any] = {"rules": ModuleRules("cloud-resources", ModulePolicySpec(namespaced_resources=gates))}
    resource = builders.sync_resource(text=text)
    namespaces = ("", "cloud-resources")
    in_cluster, in_namespace = (InventoryEntry("example.com", "v1", "Gate", each, "own") for each in namespaces)

    cluster_scoped = result(resource, builders.kyma(), wanted=frozenset({in_cluster}), **given)

    assert cluster_scoped.requests == ["resolve"]
    assert reason(cluster_scoped)[1].startswith("document 0: Gate own: spec.clusterResources: ")
    namespaced = result(resource, builders.kyma(), wanted=frozenset({in_namespace}), **given)
    assert namespaced.recorded == [(in_namespace,)]


def test_object_against_the_policy_is_not_pruned_and_named() -> None:
    crd = InventoryEntry("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "", "things.example.com")
    policy = ModuleRules("cloud-resources", ModulePolicySpec(namespaces=("kyma-system",), namespaced_resources=LISTED))

    done = result(builders.sync_resource(text=CONFIG_MAP), builders.kyma(), inventory=(ENTRY, crd), rules=policy)

    assert (len(done.applied), done.pruned) == (1, [])
    ready = find(status_of(done).conditions, "Ready")
    assert ready is not None
    assert ready.reason == "PolicyViolation"
    assert "CustomResourceDefinition things.example.com: spec.clusterResources" in ready.message
    assert status_of(done).state is State.ERROR


def test_removal_keeps_objects_against_the_policy_until_the_kyma_leaves() -> None:
    crd = {"group": "apiextensions.k8s.io", "version": "v1", "kind": "CustomResourceDefinition", "namespace": ""}
    status = {"synced": [*SYNCED, crd | {"name": "things.example.com"}]}
    resource = builders.sync_resource(text="", status=status, deletionTimestamp=DELETING)
    policy = ModuleRules("cloud-resources", ModulePolicySpec(namespaces=("kyma-system",), namespaced_resources=LISTED))

    done = result(resource, builders.kyma(), rules=policy)

    assert [each.kind for each in done.deleted] == ["ConfigMap"]
    assert (status_of(done).state, done.is_finalizer_removed) == (State.DELETING, False)
    leaving = result(resource, builders.kyma(deletionTimestamp=DELETING), rules=policy)
    assert ([each.kind for each in leaving.deleted], leaving.is_finalizer_removed) == (["ConfigMap"], True)
