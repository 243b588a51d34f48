"""Which ModuleConfigs are written, deleted or marked, and that nothing is when nothing changed."""

from dataclasses import replace
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from kube_runtime import load_yaml
from lifecycle_manager.module_catalog.module_kinds import ModuleCrKind
from lifecycle_manager.module_config.plan import (
    MAX_TEXT_BYTES,
    DeleteModuleConfig,
    SetCondition,
    Undecided,
    Wanted,
    WriteModuleConfig,
    config_name,
    decide,
    distinct_name,
    plan,
    text_of,
    usual_names,
)
from lifecycle_manager.module_config.snapshot import Reading, Snapshot
from lifecycle_manager.module_config.status import MODULE_CR_TOO_LARGE, SyncedCondition, unreadable
from lifecycle_manager.signals import ObjectReference
from lifecycle_manager_api import ModuleConfig
from lifecycle_manager_api import ObjectReference as ResourceReference
from tests import builders

MAX_NAME_LENGTH = 253
KIND = ModuleCrKind("cloud-resources.kyma-project.io/v1beta1", "Infrastructure", "kyma-system", "default")


def reading(*module_crs: dict[str, Any], missing: tuple[str, ...] = (), complete: bool = True) -> Reading:
    found: dict[ObjectReference, Any] = {
        KIND.reference(it["metadata"]["namespace"], it["metadata"]["name"]): it for it in module_crs
    }
    found |= {KIND.reference("kyma-system", name): None for name in missing}
    return Reading(KIND.default, found, complete=complete)


def snapshot(read: Reading | None, *existing: ModuleConfig, problem: SyncedCondition | None = None) -> Snapshot:
    return Snapshot("demo", "cloud-resources", "kcp-system", existing, read, problem)


def as_written(action: WriteModuleConfig, *, resource_version_read: str) -> ModuleConfig:
    """Return the ModuleConfig that the cache holds once an action was carried out."""
    message = f"read from {action.source} at resourceVersion {resource_version_read}"
    condition = {"type": "Synced", "status": "True", "reason": "Read", "message": message}
    return builders.module_config(
        action.name,
        spec={"resource": action.text, "resourceRef": msgspec.to_builtins(action.reference)},
        status={"conditions": [condition | {"lastTransitionTime": "2026-11-01T12:00:00Z"}]},
    )


def test_new_module_cr_is_written_with_its_origin() -> None:
    write, mark = plan(snapshot(reading(builders.infrastructure(resource_version="9", nfsVolumes=[]))))
    assert isinstance(write, WriteModuleConfig)
    assert write.name == "demo-cloud-resources"
    assert write.reference == ResourceReference(
        api_version="cloud-resources.kyma-project.io/v1beta1",
        kind="Infrastructure",
        namespace="kyma-system",
        name="default",
        uid="uid-of-kyma-system-default",
        resource_version="9",
        generation=1,
    )
    assert isinstance(mark, SetCondition)
    assert mark.condition.status == "True"


def test_unchanged_module_cr_writes_nothing() -> None:
    read = reading(builders.infrastructure())
    write = plan(snapshot(read))[0]
    assert isinstance(write, WriteModuleConfig)
    assert plan(snapshot(read, as_written(write, resource_version_read="7"))) == ()


def test_older_version_never_follows_a_newer_one() -> None:
    newer, older = (builders.infrastructure(resource_version=version, nfsVolumes=[version]) for version in ("10", "9"))
    write = plan(snapshot(reading(newer)))[0]
    assert isinstance(write, WriteModuleConfig)
    written = as_written(write, resource_version_read="10")

    assert plan(snapshot(reading(older, complete=False), written)) == ()
    assert plan(snapshot(reading(newer, complete=False), written)) == ()
    assert len(plan(snapshot(reading(older, complete=True), written))) == 2  # a restored cluster


def test_object_of_the_same_name_is_not_older_than_its_predecessor() -> None:
    write = plan(snapshot(reading(builders.infrastructure(resource_version="10"))))[0]
    assert isinstance(write, WriteModuleConfig)
    other = builders.infrastructure(resource_version="9", nfsVolumes=["other"])
    other["metadata"]["uid"] = "another"

    assert plan(snapshot(reading(other, complete=False), as_written(write, resource_version_read="10")))


def test_text_has_no_managed_fields_and_no_annotation_of_kubectl() -> None:
    module_cr = builders.infrastructure()
    module_cr["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "mine": "yes"}
    module_cr["status"] = {"state": "Ready"}
    document = load_yaml(text_of(module_cr))
    assert document["metadata"]["annotations"] == {"mine": "yes"}
    assert "managedFields" not in document["metadata"]
    assert document["status"] == {"state": "Ready"}


@given(st.permutations(["server", "path", "capacity", "name"]))
def test_text_does_not_depend_on_the_order_of_keys(order: list[str]) -> None:
    volume = {key: f"value of {key}" for key in order}
    ordered = {key: f"value of {key}" for key in sorted(order)}
    one = text_of(builders.infrastructure(nfsVolumes=[volume]))
    other = text_of(builders.infrastructure(nfsVolumes=[ordered]))
    assert one == other


def test_deleted_module_cr_has_its_config_deleted_by_name_whether_the_cache_has_it_or_not() -> None:
    read = reading(missing=("default",), complete=False)
    assert plan(snapshot(read)) == (DeleteModuleConfig("demo-cloud-resources"),)


def test_module_cr_that_is_being_deleted_counts_as_deleted() -> None:
    module_cr = builders.infrastructure()
    module_cr["metadata"]["deletionTimestamp"] = "2026-11-01T12:00:00Z"
    assert plan(snapshot(reading(module_cr, complete=False))) == (DeleteModuleConfig("demo-cloud-resources"),)


def test_partial_reading_deletes_no_other_configs() -> None:
    other = builders.module_config("demo-cloud-resources-other")
    actions = plan(snapshot(reading(builders.infrastructure(), complete=False), other))
    assert not any(isinstance(action, DeleteModuleConfig) for action in actions)


def test_complete_reading_deletes_configs_without_module_cr() -> None:
    stray = builders.module_config("demo-cloud-resources-stray")
    assert plan(snapshot(reading(), stray)) == (DeleteModuleConfig("demo-cloud-resources-stray"),)


def test_config_that_is_being_deleted_is_neither_deleted_again_nor_written() -> None:
    deleting = builders.module_config(deletionTimestamp="2026-11-01T12:00:00Z")
    assert plan(snapshot(reading(), deleting)) == ()
    assert plan(snapshot(reading(builders.infrastructure()), deleting)) == ()


def test_module_without_configuration_has_its_configs_deleted() -> None:
    assert plan(snapshot(None, builders.module_config())) == (DeleteModuleConfig("demo-cloud-resources"),)


def test_unreadable_cluster_is_reported_once_and_deletes_nothing() -> None:
    config, no_answer = builders.module_config(), unreadable("SKRUnreachable", "no answer")
    (mark,) = plan(snapshot(None, config, problem=no_answer))
    assert mark == SetCondition("demo-cloud-resources", no_answer)
    said = {"type": "Synced", "status": "False", "reason": "SKRUnreachable", "message": "no answer"}
    shown = builders.module_config(status={"conditions": [said | {"lastTransitionTime": "2026-11-01T12:00:00Z"}]})
    assert plan(snapshot(None, shown, problem=no_answer)) == ()


def test_module_cr_that_is_too_large_sets_a_condition_and_keeps_the_last_text() -> None:
    huge = builders.infrastructure(nfsVolumes=[{"name": "x" * MAX_TEXT_BYTES}])
    (mark,) = plan(snapshot(reading(huge), builders.module_config()))
    assert isinstance(mark, SetCondition)
    assert mark.condition.reason == MODULE_CR_TOO_LARGE
    write, mark = plan(snapshot(reading(huge)))
    assert isinstance(write, WriteModuleConfig)
    assert write.text == ""


@given(st.text("abc-", min_size=1, max_size=253), st.text("xyz", min_size=1, max_size=63))
def test_names_fit_and_differ(kyma: str, name: str) -> None:
    default = config_name(kyma, "m", KIND.default, KIND.reference("kyma-system", "default"))
    other = config_name(kyma, "m", KIND.default, KIND.reference("other", name))
    assert default != other
    assert max(len(default), len(other)) <= MAX_NAME_LENGTH


def test_name_that_another_kyma_and_module_have_is_not_touched() -> None:
    """Kyma `demo` with `cloud-resources` and Kyma `demo-cloud` with `resources` have one usual name."""
    read = reading(builders.infrastructure())
    taken = frozenset({"demo-cloud-resources"})
    assert usual_names("demo-cloud", "resources", read) == usual_names("demo", "cloud-resources", read) == taken

    write, mark = plan(replace(snapshot(read), taken=taken))

    assert isinstance(write, WriteModuleConfig)
    assert isinstance(mark, SetCondition)
    own = distinct_name("demo", "cloud-resources", KIND.reference("kyma-system", "default"))
    assert write.name == mark.name == own not in taken
    gone = replace(snapshot(reading(missing=("default",), complete=False)), taken=taken)
    assert plan(gone) == (DeleteModuleConfig(own),)


def test_existing_module_config_keeps_its_name() -> None:
    changed = builders.infrastructure(nfsVolumes=[])
    own = distinct_name("demo", "cloud-resources", KIND.reference("kyma-system", "default"))
    for name in ("demo-cloud-resources", own):
        for taken in (frozenset[str](), frozenset({"demo-cloud-resources"}) - {name}):
            steps = plan(replace(snapshot(reading(changed), builders.module_config(name)), taken=taken))
            assert {step.name for step in steps} == {name}


def test_kyma_without_a_state_decides_nothing() -> None:
    """A Kyma restored from a back-up has no status yet; taking that for 'no modules' would remove everything."""
    assert decide(builders.kyma(), "cloud-resources", builders.template()) == Undecided()


def test_module_whose_template_is_missing_decides_nothing() -> None:
    status = {"state": "Ready", "modules": [{"name": "cloud-resources", "state": "Error"}]}
    assert decide(builders.kyma(status=status), "cloud-resources", None) == Undecided()


def test_module_has_a_configuration_only_while_enabled_everywhere() -> None:
    status = {"state": "Ready", "modules": [{"name": "cloud-resources", "state": "Ready"}]}
    enabled = builders.kyma(status=status)
    assert decide(enabled, "cloud-resources", builders.template()) == Wanted(builders.template())
    assert decide(enabled, "other", builders.template()) is None
    assert decide(enabled, "cloud-resources", builders.template(enable_module_config=False)) is None
    deleting = builders.kyma(status=status, deletionTimestamp="2026-11-01T12:00:00Z")
    assert decide(deleting, "cloud-resources", builders.template()) == Wanted(builders.template())
    left = builders.kyma(status={"state": "Deleting"}, deletionTimestamp="2026-11-01T12:00:00Z")
    assert decide(left, "cloud-resources", builders.template()) is None
    assert decide(None, "cloud-resources", builders.template()) is None
