"""The rules of a Manifest, and what it says of itself."""

import dataclasses
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from kube_runtime import ApplyResult, End, InventoryEntry, ObjectOutcome, Readiness, Resource, Step
from lifecycle_manager.contract.signals import ObjectReference
from lifecycle_manager.module_installation import rules
from lifecycle_manager.module_installation import status as statuses
from lifecycle_manager.module_installation.logins import selector_of
from lifecycle_manager.module_installation.managers import managers_of
from lifecycle_manager.module_installation.module_cr import CrView, DefaultCr, default_cr
from lifecycle_manager.module_installation.plan import plan as plan_of
from lifecycle_manager.module_installation.reading import KindObject, ManagerView
from lifecycle_manager.module_installation.snapshot import ManifestSnapshot, Removal, affected_part
from lifecycle_manager.module_installation.steps import (
    CheckManagersMissing,
    DeleteObjects,
    FindModuleCRs,
    LeaveAlone,
    ListUsersObjects,
    ManifestDone,
    RemoveFinalizer,
    WaitForCheck,
)
from lifecycle_manager.object_set.inventory import known_inventory
from lifecycle_manager.object_set.reporting import READY
from lifecycle_manager_api import ManagerReference, Manifest, ModuleConfig, find, names
from lifecycle_manager_api.policy_checks import ModuleRules
from tests import builders

SOURCE = {"url": "https://example.com/garden.yaml", "digest": f"sha256:{'0' * 64}"}
DEPLOYMENT = InventoryEntry("apps", "v1", "Deployment", "kyma-system", "garden")
CONFIG_MAP = InventoryEntry("", "v1", "ConfigMap", "kyma-system", "garden")
MODULE_CR = {
    "apiVersion": "example.com/v1",
    "kind": "Garden",
    "metadata": {"name": "mine"},
    "status": {"state": "Ready"},
}
NOW = builders.NOW
DELETED: Any = {"deletionTimestamp": "2026-11-01T12:00:00Z"}
HELD: Any = {"finalizers": [names.MANIFEST_FINALIZER]}


def manifest(
    *, spec: dict[str, Any] | None = None, synced: tuple[InventoryEntry, ...] = (), **metadata: Any
) -> Manifest:
    document = msgspec.json.decode(msgspec.json.encode(builders.manifest("garden", "1.0.0", **metadata)))
    document["spec"] |= {"install": {"name": "raw-manifest", "source": SOURCE}} | (spec or {})
    document["status"] |= {"synced": [msgspec.structs.asdict(each) for each in synced]}
    return msgspec.json.decode(msgspec.json.encode(document), type=Manifest)


def snapshot(thing: Manifest, remembered: tuple[InventoryEntry, ...] = ()) -> ManifestSnapshot:
    inventory = known_inventory(thing, remembered)
    return ManifestSnapshot(resource=thing, now=NOW, seconds=0.0, inventory=inventory, before=inventory)


def plan(thing: Manifest, remembered: tuple[InventoryEntry, ...] = ()) -> Step:
    """Return the first step of a removal."""
    return plan_of(snapshot(thing, remembered))


SETTLED: dict[str, Any] = {"status": {"state": "Ready", "observedGeneration": 1}}


def test_status_of_a_settled_module_is_relied_on_until_its_check() -> None:
    """A new process has seen nothing else, and nothing that it gets to know may have changed meanwhile."""
    settled = ManifestSnapshot(resource=manifest(**SETTLED), now=NOW, seconds=0.0, seconds_until_check=7.0)
    assert rules.source_of(settled) == WaitForCheck(requeue_after=7.0)
    released = {"release": {"rollout": "garden-1", "version": "1.0.0", "at": NOW.isoformat()}}
    default: dict[str, Any] = {"resource": MODULE_CR, "customResourcePolicy": "CreateAndDelete"}
    others = (
        manifest(status=SETTLED["status"] | {"state": "Warning"}),
        manifest(status=SETTLED["status"], generation=2),
        manifest(status=SETTLED["status"] | released),
        manifest(spec=default, **SETTLED),
    )
    unlike: tuple[dict[str, Any], ...] = (
        {"seconds_until_check": 0.0},
        {"rules": ModuleRules("garden")},
        {"is_named": False},
        *({"resource": each} for each in others),
    )
    for difference in unlike:
        assert not isinstance(rules.source_of(dataclasses.replace(settled, **difference)), End), difference


def test_source_that_is_invalid_forgets_nothing_that_was_applied() -> None:
    thing = manifest(synced=(DEPLOYMENT,), spec={"install": {"name": "x", "source": {}}})
    step = rules.source_of(snapshot(thing, (CONFIG_MAP,)))
    assert isinstance(step, ManifestDone)
    assert {each.name for each in step.status.synced} == {DEPLOYMENT.name, CONFIG_MAP.name}
    assert len(step.status.synced) == 2


def test_manifest_without_objects_goes_without_a_request_to_the_cluster() -> None:
    assert plan(manifest(**DELETED, **HELD)) == RemoveFinalizer()
    assert plan(manifest(**DELETED), (DEPLOYMENT,)) == LeaveAlone()
    assert isinstance(plan(manifest(**DELETED, **HELD), (DEPLOYMENT,)), FindModuleCRs)


def test_removed_module_with_finalizers_of_others_names_them() -> None:
    waiting = plan(manifest(**DELETED | {"finalizers": ["example.com/backup"]}), (DEPLOYMENT,))
    assert isinstance(waiting, ManifestDone)
    ready = find(waiting.status.conditions, READY)
    assert ready is not None
    assert ready.message == "waiting as other finalizers are present: example.com/backup"
    assert (waiting.status.state, waiting.status.synced) == ("Deleting", ())


def test_finalizers_of_a_default_module_cr_stay_while_the_version_before_runs() -> None:
    """A new version may name a manager that is not applied yet."""
    named = {"group": "apps", "version": "v1", "kind": "Deployment", "name": "garden-v2", "namespace": "kyma-system"}
    other = InventoryEntry("apps", "v1", "Deployment", "kyma-system", "garden-v2")
    cr = KindObject(Resource.dynamic("example.com", "v1", "Garden", "gardens", namespaced=True), "kyma-system", "mine")
    live = {"metadata": {"finalizers": ["example.com/held"], "deletionTimestamp": "2026-11-01T12:00:00Z"}}
    for inventory, checked in (((DEPLOYMENT,), (other, DEPLOYMENT)), ((DEPLOYMENT, other), (other,))):
        thing = manifest(synced=inventory, spec={"manager": named}, **DELETED, **HELD)
        removal = Removal((), default_crs=((cr, live),))
        assert plan_of(
            ManifestSnapshot(
                resource=thing, now=NOW, seconds=0.0, inventory=inventory, before=inventory, removal=removal
            )
        ) == (CheckManagersMissing(checked))


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"labels": {names.KYMA_NAME: ""}}, "KymaUnnamed"),
        ({"spec": {"install": {"name": "x", "source": {}}}}, "SourceInvalid"),
    ],
)
def test_manifest_that_can_not_be_meant_is_refused(given: dict[str, Any], reason: str) -> None:
    step = rules.source_of(snapshot(manifest(**given)))
    assert isinstance(step, ManifestDone)
    ready = find(step.status.conditions, READY)
    assert (ready and ready.reason, step.requeue_after) == (reason, None)


@pytest.mark.parametrize(
    ("age", "is_named", "expected"),
    [(timedelta(minutes=5), False, "Orphaned"), (timedelta(minutes=4), False, None), (timedelta(days=1), True, None)],
)
def test_manifest_that_no_kyma_names_is_an_error_after_a_while(
    age: timedelta, *, is_named: bool, expected: str | None
) -> None:
    thing = manifest(synced=(DEPLOYMENT,), creationTimestamp=(NOW - age).isoformat())
    step = rules.source_of(dataclasses.replace(snapshot(thing), is_named=is_named))
    if expected is None:
        assert not isinstance(step, End)
        return
    assert isinstance(step, ManifestDone)
    assert (step.status.state, len(step.status.synced), step.requeue_after) == ("Error", 1, 30.0)
    ready = find(step.status.conditions, READY)
    assert ready is not None
    assert ready.reason == expected


def test_orphaned_manifest_is_removed_like_any_other() -> None:
    thing = manifest(synced=(DEPLOYMENT,), creationTimestamp="2026-10-01T12:00:00Z", **DELETED, **HELD)
    seen = ManifestSnapshot(
        resource=thing, now=NOW, seconds=0.0, inventory=(DEPLOYMENT,), before=(DEPLOYMENT,), is_named=False
    )
    assert isinstance(plan_of(seen), FindModuleCRs)


def test_default_module_cr_is_in_our_namespace_and_has_no_status() -> None:
    found = default_cr(manifest(spec={"resource": MODULE_CR}))
    assert found is not None
    assert str(found) == "Garden kyma-system/mine"
    assert "status" not in found.document
    assert found.document["metadata"]["labels"][names.WATCHED_BY] == "kyma"


def test_default_module_cr_has_no_owner_of_another_cluster() -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "one"}
    owned = {**MODULE_CR, "metadata": {"name": "mine", "ownerReferences": [owner]}}
    found = default_cr(manifest(spec={"resource": owned}))
    assert found is not None
    assert "ownerReferences" not in found.document["metadata"]


def test_default_module_cr_is_where_it_says_or_nowhere_in_particular() -> None:
    elsewhere = {**MODULE_CR, "metadata": {"name": "mine", "namespace": "garden"}}
    placed = default_cr(manifest(spec={"resource": elsewhere}))
    assert placed is not None
    assert placed.namespace == "garden"
    scoped = default_cr(manifest(spec={"resource": elsewhere}, annotations={names.IS_CLUSTER_SCOPED: "true"}))
    assert scoped is not None
    assert scoped.namespace == ""
    assert "namespace" not in scoped.document["metadata"]


def test_default_module_cr_is_left_to_the_user_where_they_say_so() -> None:
    assert default_cr(manifest(spec={"resource": MODULE_CR, "customResourcePolicy": "Ignore"})) is None
    assert default_cr(manifest(spec={"resource": {"no": "object"}})) is None


@pytest.mark.parametrize(
    ("api_version", "kind", "metadata"),
    [
        ("operator.kyma-project.io/v1beta2", "Kyma", {"name": "default"}),
        ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", {"name": "skr-webhook"}),
        ("scheduling.k8s.io/v1", "PriorityClass", {"name": "skr-webhook-priority", "namespace": "elsewhere"}),
    ],
)
def test_object_of_the_lifecycle_managers_own_is_no_default_module_cr(
    api_version: str, kind: str, metadata: dict[str, str]
) -> None:
    document = {"apiVersion": api_version, "kind": kind, "metadata": metadata}
    assert default_cr(manifest(spec={"resource": document})) is None
    assert default_cr(manifest()) is None


def wanted_cr() -> DefaultCr:
    found = default_cr(manifest(spec={"resource": MODULE_CR}))
    assert found is not None
    return found


def manager(state: Any = "Current", message: str = "") -> ManagerView:
    return ManagerView("Deployment garden", Readiness(state, message))


def seen(*outcomes: ObjectOutcome, **given: Any) -> ManifestSnapshot:
    """Return what a round has shown in which these objects were applied, or are no longer part of the module."""
    applied = ApplyResult(outcomes, (DEPLOYMENT,))
    return dataclasses.replace(snapshot(manifest(), (DEPLOYMENT,)), applied=applied, **given)


OLD_CRD = InventoryEntry("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "", "old")
READ = {"metadata": {"uid": "one", "resourceVersion": "1"}}
ALL_WELL = CrView(wanted_cr(), {**READ, "status": {"state": "Ready"}})


@pytest.mark.parametrize(
    ("round_", "state", "reason"),
    [
        (seen(), "Ready", "ModuleReady"),
        (seen(managers=(manager(),), module_cr=ALL_WELL), "Ready", "ModuleReady"),
        (seen(managers=(manager("InProgress", "0 of 1"),)), "Processing", "ManagerNotReady"),
        (seen(managers=(manager("Failed", "crashes"),), module_cr=ALL_WELL), "Error", "ManagerFailed"),
        (seen(managers=(ManagerView("Deployment garden", None),)), "Error", "ManagerMissing"),
        (seen(module_cr=CrView(wanted_cr(), {**READ, "status": {"state": "Warning"}})), "Warning", "ModuleCRWarning"),
        (seen(module_cr=CrView(wanted_cr(), {})), "Processing", "ModuleCRProcessing"),
        (seen(module_cr=CrView(wanted_cr(), None)), "Ready", "ModuleReady"),
        (seen(module_cr=CrView(wanted_cr(), None, "no")), "Error", "ModuleCRRefused"),
        (seen(ObjectOutcome(CONFIG_MAP, 0, "failed", error="no"), module_cr=ALL_WELL), "Error", "ApplyFailed"),
        (seen(ObjectOutcome(CONFIG_MAP, None, "kept")), "Processing", "ObjectsTerminating"),
        (seen(ObjectOutcome(OLD_CRD, None, "held", contents=("Old a",))), "Warning", "ObjectsInUse"),
    ],
)
def test_state_is_that_of_the_part_which_is_worst(round_: ManifestSnapshot, state: str, reason: str) -> None:
    status = statuses.installed(round_).status
    ready = find(status.conditions, READY)
    assert ready is not None
    assert (status.state, ready.reason) == (state, reason)
    assert (ready.status == "True") == (state == "Ready")


def test_round_that_shows_nothing_new_changes_nothing() -> None:
    round_ = seen(managers=(manager(),), module_cr=ALL_WELL)
    first = statuses.installed(round_).status
    later = msgspec.structs.replace(round_.resource, status=first)
    again = dataclasses.replace(round_, resource=later, now=NOW + timedelta(hours=1))
    assert statuses.installed(again).status == first


def test_module_cr_that_was_made_is_remembered_until_another_one_is_wanted() -> None:
    before = manifest()
    after = msgspec.structs.replace(before, status=statuses.installed(seen(module_cr=ALL_WELL)).status)
    assert not statuses.was_created(before, wanted_cr())
    assert statuses.was_created(after, wanted_cr())
    other = default_cr(manifest(spec={"resource": {**MODULE_CR, "kind": "Park"}}))
    assert other is not None
    assert not statuses.was_created(after, other)


def test_manager_is_the_one_that_is_named_or_else_the_workloads() -> None:
    inventory = (CONFIG_MAP, DEPLOYMENT)
    assert managers_of(None, inventory) == (DEPLOYMENT,)
    named = ManagerReference(group="apps", version="v1", kind="Deployment", name="garden")
    assert managers_of(named, inventory) == (DEPLOYMENT,)
    elsewhere = msgspec.structs.replace(named, namespace="garden")
    assert managers_of(elsewhere, inventory)[0].namespace == "garden"
    assert managers_of(msgspec.structs.replace(named, name="other"), inventory)[0].namespace == "kyma-system"


def test_event_concerns_the_module_whose_object_it_is() -> None:
    thing = manifest(spec={"resource": MODULE_CR}, synced=(DEPLOYMENT,))
    assert affected_part(thing, ObjectReference("example.com", "Garden", "anywhere", "any")) == "of-its-kind"
    assert affected_part(thing, ObjectReference("example.com", "Garden", "kyma-system", "mine")) == "module-cr"
    assert affected_part(thing, ObjectReference("apps", "Deployment", "kyma-system", "garden")) == "object"
    assert affected_part(thing, ObjectReference("apps", "Deployment", "kyma-system", "other")) is None


def test_credentials_are_selected_by_the_source_or_by_the_configuration_beside_it() -> None:
    selector = {"matchLabels": {"registry": "ours"}}
    by_config = manifest(spec={"config": {"credSecretSelector": selector}})
    by_source = manifest(spec={"install": {"name": "x", "source": {"type": "oci-ref", "credSecretSelector": selector}}})
    for each in (by_config, by_source):
        found = selector_of(each)
        assert found is not None
        assert str(found) == "registry=ours"
    assert selector_of(manifest()) is None


def removal_with(
    *configs: ModuleConfig, users_objects: tuple[str, ...] | None = (), in_use: tuple[str, ...] = ()
) -> Step:
    """Return the next step of a removal; its cluster has these objects of the module's kinds, or they are not known."""
    spec = {"resource": MODULE_CR, "customResourcePolicy": "CreateAndDelete"}
    thing = manifest(synced=(DEPLOYMENT,), spec=spec, **DELETED, **HELD)
    seen = ManifestSnapshot(
        resource=thing,
        now=NOW,
        seconds=0.0,
        inventory=(DEPLOYMENT,),
        before=(DEPLOYMENT,),
        removal=Removal((), users_objects=users_objects, upgraded=True),
        module_configs=configs,
        configured_in_use=in_use,
    )
    return plan_of(seen)


def config_of(name: str, **metadata: Any) -> ModuleConfig:
    reference = {"apiVersion": "example.com/v1", "kind": "Garden", "namespace": "kyma-system", "name": name}
    return builders.module_config(f"demo-garden-{name}", spec={"resourceRef": reference}, **metadata)


@pytest.mark.parametrize(
    ("configs", "reason", "message"),
    [
        ([config_of("theirs"), config_of("mine")], "ModuleCRsInUse", "delete them first: Garden kyma-system/theirs"),
        (
            [config_of("theirs", **DELETED), config_of("mine")],
            "Deleting",
            "waiting for deletion of the objects of Garden kyma-system/mine, Garden kyma-system/theirs",
        ),
    ],
)
def test_objects_of_a_module_wait_for_those_that_its_module_manager_made(
    configs: list[ModuleConfig], reason: str, message: str
) -> None:
    """The rights to delete them may go with the Manifest."""
    step = removal_with(*configs)
    assert isinstance(step, ManifestDone)
    ready = find(step.status.conditions, READY)
    assert ready is not None
    assert (step.status.state, ready.reason, ready.message) == ("Deleting", reason, message)
    assert removal_with() == DeleteObjects((DEPLOYMENT,))


@pytest.mark.parametrize("configs", [[], [config_of("mine", deletionTimestamp="2026-07-30T10:00:00Z")]])
def test_users_are_told_what_the_objects_of_the_module_manager_wait_for(configs: list[ModuleConfig]) -> None:
    message = "delete them first: CustomResourceDefinition roses has Rose a"
    step = removal_with(*configs, in_use=(message,))
    assert isinstance(step, ManifestDone)
    ready = find(step.status.conditions, READY)
    assert ready is not None
    assert (step.status.state, ready.reason, ready.message) == ("Deleting", "ModuleCRsInUse", message)


def test_objects_made_from_module_configs_are_not_asked_of_users() -> None:
    """The removal waits for the ModuleConfigs; without these, an object with such an owner is the users'."""
    listing = removal_with(config_of("mine"), users_objects=None)
    assert isinstance(listing, ListUsersObjects)
    assert listing.sync_resources == {f"{names.KCP_NAMESPACE}/demo-garden-mine"}
    without = removal_with(users_objects=None)
    assert isinstance(without, ListUsersObjects)
    assert without.sync_resources == frozenset()
