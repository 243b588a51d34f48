"""What a SyncResource needs next, and what its status says after a round of applying."""

from typing import Any

import msgspec
import pytest

from kube_runtime import ApplyResult, InventoryEntry, ObjectOutcome, Step, parse_objects
from lifecycle_manager.object_set.inventory import inventory_of, known_inventory
from lifecycle_manager.object_set.ownership import Claim, claim_key
from lifecycle_manager.object_set.steps import (
    ApplyObjects,
    DeleteObjects,
    RecordIntent,
    RemoveFinalizer,
    ResolveObjects,
)
from lifecycle_manager.skr import SkrFailure
from lifecycle_manager.sync_resource import plan as planned
from lifecycle_manager.sync_resource import status as statuses
from lifecycle_manager.sync_resource.ending import SyncResourceDone
from lifecycle_manager.sync_resource.intent import TooManyObjects, begun, claim_index
from lifecycle_manager.sync_resource.snapshot import SyncResourceSnapshot, read_text
from lifecycle_manager.sync_resource.status import Refusal
from lifecycle_manager_api import (
    KindRule,
    Kyma,
    ModulePolicySpec,
    NamespacedResources,
    State,
    SyncResource,
    find,
    names,
)
from lifecycle_manager_api.policy_checks import ModuleRules
from tests import builders
from tests.policies import anything

CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one, namespace: kyma-system}\n"
ENTRY = InventoryEntry("", "v1", "ConfigMap", "kyma-system", "one")
SYNCED = [{"group": "", "version": "v1", "kind": "ConfigMap", "namespace": "kyma-system", "name": "one"}]
DELETING = "2026-11-01T12:00:00Z"
LISTED = NamespacedResources(allow=(KindRule(kind="ConfigMap", names=("*",)),))


def outcome(error: str | None = None, live: dict[str, Any] | None = None) -> ObjectOutcome:
    return ObjectOutcome(entry=ENTRY, index=0, action="failed" if error else "created", error=error, live=live)


def snapshot(resource: SyncResource, kyma: Kyma | None, **given: Any) -> SyncResourceSnapshot:
    known: dict[str, Any] = {"rules": anything(), "wanted": frozenset()}
    text = read_text(resource.spec.resource)
    own = known_inventory(resource, ())
    return SyncResourceSnapshot(
        resource=resource,
        kyma=kyma,
        now=builders.NOW,
        **{"inventory": own, "before": own, "text": text} | known | given,
    )


def plan(resource: SyncResource, kyma: Kyma | None, **given: Any) -> Step:
    return planned.plan(snapshot(resource, kyma, **given))


def reason(step: Step) -> tuple[str, str]:
    """Return reason and message of the condition Valid that a step writes."""
    assert isinstance(step, SyncResourceDone)
    valid = find(step.status.conditions, "Valid")
    assert valid is not None
    return valid.reason, valid.message


def after(resource: SyncResource, *intended: InventoryEntry) -> SyncResource:
    """Return a SyncResource whose intent is recorded."""
    return msgspec.structs.replace(resource, status=begun(resource, intended))


def test_intent_is_recorded_once_and_in_the_status() -> None:
    resource = builders.sync_resource(generation=3)

    written = after(resource, ENTRY)

    assert inventory_of(written) == (ENTRY,)
    assert (written.status.state, written.status.owner_uid) == (State.PROCESSING, resource.metadata.uid)
    assert written.status.observed_generation is None
    assert after(written, ENTRY) == written


def test_what_comes_later_in_a_generation_is_added_to_what_came_before() -> None:
    other = InventoryEntry("", "v1", "ConfigMap", "kyma-system", "two")
    begun_before = after(builders.sync_resource(generation=3), ENTRY)

    assert inventory_of(after(begun_before, ENTRY, other)) == (ENTRY, other)


def test_intent_without_new_objects_leaves_the_status_as_it_is() -> None:
    resource = builders.sync_resource(status={"synced": SYNCED, "state": "Ready", "ownerUid": "first"})

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

    assert plan(interrupted, builders.kyma()) == DeleteObjects((ENTRY,))


@pytest.mark.parametrize("metadata", [{}, {"deletionTimestamp": DELETING}])
def test_objects_of_a_paused_kyma_stay_as_they_are_until_it_is_deleted(metadata: dict[str, Any]) -> None:
    status = {"synced": SYNCED, "state": "Ready", "ownerUid": "first"}
    resource = builders.sync_resource(text="", status=status, **metadata)
    paused = {names.SKIP_RECONCILIATION: "true"}
    step = plan(resource, builders.kyma(labels=paused))
    assert isinstance(step, SyncResourceDone)
    assert step.status == resource.status
    assert step.applied is None
    leaving = plan(resource, builders.kyma(labels=paused, deletionTimestamp=DELETING))
    assert not isinstance(leaving, SyncResourceDone) or leaving.status != resource.status


def test_too_many_objects_are_refused_before_any_is_applied() -> None:
    many = tuple(InventoryEntry("", "v1", "ConfigMap", "shop", f"name-{number:05d}") for number in range(9000))

    with pytest.raises(TooManyObjects, match="9000 objects are too many; split them"):
        begun(builders.sync_resource(generation=1), many)


def test_object_that_the_cluster_resolves_to_one_of_ours_is_refused() -> None:
    ours = InventoryEntry("", "v1", "Secret", "kyma-system", "skr-webhook-tls")

    step = plan(builders.sync_resource(text=CONFIG_MAP), builders.kyma(), wanted=frozenset({ours}))

    assert reason(step) == (
        "Forbidden",
        "these objects belong to the Lifecycle Manager: Secret kyma-system/skr-webhook-tls",
    )


def test_objects_are_applied_with_the_inventory_to_prune_by() -> None:
    resource = builders.sync_resource(text=CONFIG_MAP, status={"synced": SYNCED})
    step = plan(resource, builders.kyma(), wanted=frozenset({ENTRY}))
    assert isinstance(step, ApplyObjects), "the intent is recorded already"
    assert [each.name for each in step.objects] == ["one"]
    assert step.inventory == (ENTRY,)


def test_text_that_is_no_yaml_is_refused() -> None:
    step = plan(builders.sync_resource(text="kind: ["), builders.kyma())
    assert reason(step)[0] == "InvalidResource"


@pytest.mark.parametrize(
    "second", ["name: one", "name: one, namespace: default"], ids=["default namespace", "named namespace"]
)
def test_text_that_has_an_object_twice_is_refused(second: str) -> None:
    text = "".join(f"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{{each}}}\n" for each in ("name: one", second))
    _, message = reason(plan(builders.sync_resource(text=text), builders.kyma()))
    assert message.startswith("document 1: ConfigMap")
    assert message.endswith("stands in document 0 already")


def test_cluster_wide_object_is_the_same_in_each_namespace() -> None:
    text = "".join(f"---\napiVersion: x/v1\nkind: Wide\nmetadata: {{name: one, namespace: {each}}}\n" for each in "ab")
    resource = builders.sync_resource(text=text)
    wide = frozenset({InventoryEntry("x", "v1", "Wide", "", "one")})
    narrow = frozenset(InventoryEntry("x", "v1", "Wide", each, "one") for each in "ab")
    assert reason(plan(resource, builders.kyma(), wanted=wide)) == (
        "InvalidResource",
        "document 1: Wide b/one (x/v1) stands in document 0 already",
    )
    assert isinstance(plan(resource, builders.kyma(), wanted=narrow), RecordIntent)


def test_name_that_no_path_has_is_refused_at_admission() -> None:
    resource = builders.sync_resource(text=CONFIG_MAP.replace("name: one", "name: '..'"))
    error = planned.objection_to(resource, ModuleRules("garden", ModulePolicySpec(namespaced_resources=LISTED)))
    assert (
        error == "spec.resource: document 0: invalid metadata.name '..': expected other than . and .., without / and %"
    )


def test_resource_of_no_kyma_is_refused_and_of_a_leaving_one_too() -> None:
    resource = builders.sync_resource(text=CONFIG_MAP)
    assert reason(plan(resource, None))[0] == "KymaNotFound"
    assert reason(plan(resource, builders.kyma(deletionTimestamp=DELETING)))[0] == "KymaDeleting"


def test_deletion_removes_objects_first() -> None:
    resource = builders.sync_resource(status={"synced": SYNCED}, deletionTimestamp=DELETING)
    assert plan(resource, builders.kyma()) == DeleteObjects((ENTRY,))
    empty = builders.sync_resource(deletionTimestamp=DELETING)
    assert plan(empty, builders.kyma()) == RemoveFinalizer()


def test_refusal_keeps_the_inventory() -> None:
    resource = builders.sync_resource(status={"synced": SYNCED, "state": "Ready"})
    status = statuses.refused(resource, Refusal("InvalidResource", "document 0: no mapping"), builders.NOW)
    assert status.state is State.ERROR
    assert status.synced == resource.status.synced
    valid = find(status.conditions, "Valid")
    assert valid is not None
    assert (valid.status, valid.message) == ("False", "document 0: no mapping")


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


def test_applied_objects_make_it_ready_and_a_second_round_changes_nothing() -> None:
    live = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}}
    result = ApplyResult(outcomes=(outcome(live=live),), inventory=(ENTRY,))
    resource = builders.sync_resource(text=CONFIG_MAP)
    status = statuses.applied(resource, result, builders.NOW)
    assert status.state is State.READY
    assert status.observed_generation == 1
    again = statuses.applied(msgspec.structs.replace(resource, status=status), result, builders.NOW)
    assert again == status


TEXT = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one, namespace: shop}\n"


def test_conflict_refuses_the_whole_text_and_gives_up_the_claim() -> None:
    resource = builders.sync_resource(
        text=TEXT,
        status={"synced": [{"group": "", "version": "v1", "kind": "ConfigMap", "namespace": "shop", "name": "one"}]},
    )
    shop = InventoryEntry("", "v1", "ConfigMap", "shop", "one")

    step = plan(resource, builders.kyma(), claims=(Claim(shop, "0000-01-01", "other"),))

    assert reason(step)[0] == "Conflict"
    assert "belongs to SyncResource other" in reason(step)[1]
    assert isinstance(step, SyncResourceDone)
    assert step.status.synced == ()


def test_namespaces_are_made_only_where_asked_for() -> None:
    text = TEXT + "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: own}\n---\n" + TEXT.replace("shop", "own")
    asked = builders.sync_resource(text=text, annotations={"operator.kyma-project.io/create-namespaces": "true"})
    steps = [plan(each, builders.kyma(), recorded=True) for each in (asked, builders.sync_resource(text=text))]

    assert [step.namespaces for step in steps if isinstance(step, ApplyObjects)] == [("shop",), ()]


def test_object_against_the_policy_refuses_the_whole_text() -> None:
    text = TEXT + "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: all}\n"
    assert len(parse_objects(text)) == 2
    own = ModulePolicySpec(namespaces=("shop",))

    step = plan(builders.sync_resource(text=text), builders.kyma(), rules=ModuleRules("cloud-resources", own))

    message = (
        "document 1: ClusterRole all: spec.clusterResources: does not list ClusterRole of rbac.authorization.k8s.io"
    )
    assert reason(step) == ("PolicyViolation", f"{message} with this name")
    assert isinstance(step, SyncResourceDone)
    assert step.status.state is State.ERROR
    allowed = plan(builders.sync_resource(text=text), builders.kyma(), wanted=frozenset({ENTRY}))
    assert isinstance(allowed, RecordIntent)


def test_scope_that_the_cluster_states_decides_over_the_namespace_in_the_text() -> None:
    text = "apiVersion: example.com/v1\nkind: Gate\nmetadata: {name: own, namespace: cloud-resources}\n"
    gates = NamespacedResources(allow=(KindRule(group="example.com", kind="Gate"),))
    given: dict[str, Any] = {"rules": ModuleRules("cloud-resources", ModulePolicySpec(namespaced_resources=gates))}
    resource = builders.sync_resource(text=text)
    namespaces = ("", "cloud-resources")
    in_cluster, in_namespace = (InventoryEntry("example.com", "v1", "Gate", each, "own") for each in namespaces)

    first = plan(resource, builders.kyma(), wanted=None, **given)
    cluster_scoped = plan(resource, builders.kyma(), wanted=frozenset({in_cluster}), **given)

    assert isinstance(first, ResolveObjects)
    assert reason(cluster_scoped)[1].startswith("document 0: Gate own: spec.clusterResources: ")
    namespaced = plan(resource, builders.kyma(), wanted=frozenset({in_namespace}), **given)
    assert isinstance(namespaced, RecordIntent)


def test_object_against_the_policy_is_not_pruned_and_named() -> None:
    crd = InventoryEntry("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "", "things.example.com")
    left = ObjectOutcome(entry=crd, index=None, action="kept", error=None, live=None)
    result = ApplyResult((outcome(), left), (ENTRY, crd))
    policy = ModuleRules("cloud-resources", ModulePolicySpec(namespaces=("kyma-system",), namespaced_resources=LISTED))

    step = plan(builders.sync_resource(text=CONFIG_MAP), builders.kyma(), recorded=True, applied=result, rules=policy)

    assert isinstance(step, SyncResourceDone)
    ready = find(step.status.conditions, "Ready")
    assert ready is not None
    assert ready.reason == "PolicyViolation"
    assert "CustomResourceDefinition things.example.com: spec.clusterResources" in ready.message
    assert step.status.state is State.ERROR


def test_removal_keeps_objects_against_the_policy_until_the_kyma_leaves() -> None:
    crd = {"group": "apiextensions.k8s.io", "version": "v1", "kind": "CustomResourceDefinition", "namespace": ""}
    status = {"synced": [*SYNCED, crd | {"name": "things.example.com"}]}
    resource = builders.sync_resource(text="", status=status, deletionTimestamp=DELETING)
    policy = ModuleRules("cloud-resources", ModulePolicySpec(namespaces=("kyma-system",), namespaced_resources=LISTED))
    done: dict[str, Any] = {"rules": policy, "removed": ApplyResult((), ())}

    first = plan(resource, builders.kyma(), rules=policy)
    last = plan(resource, builders.kyma(), **done)

    assert isinstance(first, DeleteObjects)
    assert [each.kind for each in first.inventory] == ["ConfigMap"]
    assert isinstance(last, SyncResourceDone)
    assert last.status.state is State.DELETING
    leaving = builders.kyma(deletionTimestamp=DELETING)
    assert isinstance(plan(resource, leaving, **done), RemoveFinalizer)
