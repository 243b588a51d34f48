"""Which ModuleConfigs are written, deleted or marked, and that nothing is when nothing changed."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_runtime import TextTooLong, load_yaml
from lifecycle_manager.contract.conditions import COMPLETE
from lifecycle_manager.contract.signals import ObjectReference
from lifecycle_manager.contract.verdict import MODULE_CR_TOO_LARGE, QUOTA_EXCEEDED
from lifecycle_manager.module_catalog.module_kinds import ModuleCrKind
from lifecycle_manager.module_config.reading import NOTHING_READ, ModuleCr, Reading
from lifecycle_manager.module_config.rules import (
    ApplyModuleConfig,
    DeleteModuleConfig,
    NothingToRead,
    SetCondition,
    distinct_name,
    end_before_reading,
    marks,
    usual_name,
)
from lifecycle_manager.module_config.snapshot import ModuleConfigSnapshot, ReadVersions
from lifecycle_manager.module_config.status import SyncedCondition, too_large
from lifecycle_manager.module_config.texts import text_of
from lifecycle_manager.options.configuration import Quota
from lifecycle_manager_api import Kyma, ModuleConfig, ModuleTemplate, ResourceReference, names
from lifecycle_manager_api.kinds import MAX_TEXT_BYTES
from tests import builders
from tests.unit.module_config.planning import writes_after

MAX_NAME_LENGTH = 253
KIND = ModuleCrKind("cloud-resources.kyma-project.io/v1beta1", "Infrastructure", "kyma-system", "default")


def as_read(module_cr: dict[str, Any]) -> ModuleCr:
    metadata = module_cr["metadata"]
    source = KIND.reference(metadata["namespace"], metadata["name"])
    reference = ResourceReference(
        api_version=module_cr["apiVersion"],
        kind=module_cr["kind"],
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        generation=metadata["generation"],
    )
    read = ModuleCr(source, reference, metadata.get("creationTimestamp", ""), "deletionTimestamp" in metadata)
    try:
        return replace(read, text=text_of(module_cr))
    except TextTooLong as error:
        return replace(read, problem=too_large(source, str(error)))


def reading(*module_crs: dict[str, Any], missing: tuple[str, ...] = (), complete: bool = True) -> Reading:
    found: dict[ObjectReference, ModuleCr | None] = {each.source: each for each in map(as_read, module_crs)}
    found |= {KIND.reference("kyma-system", name): None for name in missing}
    return Reading(KIND.default, found, complete=complete)


def snapshot(read: Reading = NOTHING_READ, *existing: ModuleConfig) -> ModuleConfigSnapshot:
    return ModuleConfigSnapshot(
        kyma="demo", module="cloud-resources", namespace="kcp-system", existing=existing, reading=read
    )


def as_written(action: ApplyModuleConfig) -> ModuleConfig:
    """Return the ModuleConfig that the cache holds once an action was carried out."""
    message = f"read from {action.source}"
    return builders.module_config(
        action.name,
        spec={"resource": action.text, "resourceRef": msgspec.to_builtins(action.reference)},
        status={"conditions": [builders.condition("Synced", "Read", message, "True")]},
    )


def test_new_module_cr_is_written_with_its_origin() -> None:
    write, mark = writes_after(snapshot(reading(builders.infrastructure(resource_version="9", nfsVolumes=[]))))
    assert isinstance(write, ApplyModuleConfig)
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
    write = writes_after(snapshot(read))[0]
    assert isinstance(write, ApplyModuleConfig)
    assert writes_after(snapshot(read, as_written(write))) == ()


@pytest.mark.parametrize("label", [names.KYMA_NAME, names.MODULE_NAME, names.MANAGED_BY])
def test_module_config_that_lost_a_label_is_written_again(label: str) -> None:
    """Without it the Module Manager would not see it any more."""
    read = reading(builders.infrastructure())
    write = writes_after(snapshot(read))[0]
    assert isinstance(write, ApplyModuleConfig)
    written = as_written(write)
    kept = {key: value for key, value in written.metadata.labels.items() if key != label}
    lost = msgspec.structs.replace(written, metadata=msgspec.structs.replace(written.metadata, labels=kept))
    assert writes_after(snapshot(read, lost)) == (write,)


def test_older_version_never_follows_a_newer_one() -> None:
    newer, older = (builders.infrastructure(resource_version=version, nfsVolumes=[version]) for version in ("10", "9"))
    write = writes_after(snapshot(reading(newer)))[0]
    assert isinstance(write, ApplyModuleConfig)
    written = as_written(write)

    assert writes_after(snapshot(reading(older, complete=False), written)) == ()
    assert writes_after(snapshot(reading(newer, complete=False), written)) == ()
    restored = writes_after(snapshot(reading(older, complete=True), written))
    assert [type(step) for step in restored] == [ApplyModuleConfig]


def test_answer_from_the_past_is_recognized_although_its_successor_changed_no_text() -> None:
    """Labels that were changed and changed back lead to no write, so the ModuleConfig names an earlier version."""
    first, labelled, back = (builders.infrastructure(resource_version=version) for version in ("5", "7", "9"))
    labelled["metadata"]["labels"] = {"a": "b"}
    versions, late = ReadVersions(), as_read(labelled)

    def superseded(read: dict[str, Any], *, complete: bool) -> frozenset[ObjectReference]:
        return versions.note(replace(snapshot(reading(read, complete=complete)), accepted=frozenset({late.source})))

    assert not superseded(first, complete=True)
    assert not superseded(back, complete=False)
    write = writes_after(snapshot(reading(first)))[0]
    assert isinstance(write, ApplyModuleConfig)
    assert superseded(labelled, complete=False) == {late.source}
    seen = snapshot(reading(labelled, complete=False), as_written(write))
    assert writes_after(replace(seen, superseded=frozenset({late.source}))) == ()
    assert not superseded(labelled, complete=True)  # a restored cluster
    assert not superseded(labelled, complete=False)


def test_new_version_with_the_same_text_and_generation_writes_nothing() -> None:
    write = writes_after(snapshot(reading(builders.infrastructure(resource_version="7"))))[0]
    assert isinstance(write, ApplyModuleConfig)
    assert writes_after(snapshot(reading(builders.infrastructure(resource_version="8")), as_written(write))) == ()


def test_object_of_the_same_name_is_not_older_than_its_predecessor() -> None:
    write = writes_after(snapshot(reading(builders.infrastructure(resource_version="10"))))[0]
    assert isinstance(write, ApplyModuleConfig)
    other = builders.infrastructure(resource_version="9", nfsVolumes=["other"])
    other["metadata"]["uid"] = "another"

    assert writes_after(snapshot(reading(other, complete=False), as_written(write)))


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


def test_config_of_a_deleted_module_cr_is_deleted_whether_the_cache_has_it_or_not() -> None:
    read = reading(missing=("default",), complete=False)
    assert writes_after(snapshot(read)) == (DeleteModuleConfig("demo-cloud-resources", by_users=True),)


def test_module_cr_that_is_being_deleted_counts_as_deleted() -> None:
    module_cr = builders.infrastructure()
    module_cr["metadata"]["deletionTimestamp"] = "2026-11-01T12:00:00Z"
    assert writes_after(snapshot(reading(module_cr, complete=False))) == (
        DeleteModuleConfig("demo-cloud-resources", by_users=True),
    )


def test_config_that_is_being_deleted_is_neither_deleted_again_nor_written() -> None:
    deleting = builders.module_config(deletionTimestamp="2026-11-01T12:00:00Z")
    assert writes_after(snapshot(reading(), deleting)) == ()
    assert writes_after(snapshot(reading(builders.infrastructure()), deleting)) == ()


def test_unreadable_cluster_is_reported_once_and_deletes_nothing() -> None:
    config, no_answer = builders.module_config(), SyncedCondition("False", "ClusterUnreachable", "no answer")
    (mark,) = marks(snapshot(NOTHING_READ, config), no_answer)
    assert mark == SetCondition("demo-cloud-resources", no_answer)
    condition = builders.condition("Synced", "ClusterUnreachable", "no answer")
    shown = builders.module_config(status={"conditions": [condition]})
    assert marks(snapshot(NOTHING_READ, shown), no_answer) == ()


def test_module_cr_that_is_too_large_sets_a_condition_and_keeps_the_last_text() -> None:
    huge = builders.infrastructure(nfsVolumes=[{"name": "x" * MAX_TEXT_BYTES}])
    (mark,) = writes_after(snapshot(reading(huge), builders.module_config()))
    assert isinstance(mark, SetCondition)
    assert mark.condition.reason == MODULE_CR_TOO_LARGE
    write, mark = writes_after(snapshot(reading(huge)))
    assert isinstance(write, ApplyModuleConfig)
    assert write.text == ""


@given(st.text("abc-", min_size=1, max_size=253), st.text("xyz", min_size=1, max_size=63))
def test_names_fit_and_differ(kyma: str, name: str) -> None:
    default = usual_name(kyma, "m", KIND.default, KIND.reference("kyma-system", "default"))
    other = usual_name(kyma, "m", KIND.default, KIND.reference("other", name))
    assert default != other
    assert max(len(default), len(other)) <= MAX_NAME_LENGTH


def test_existing_module_config_keeps_its_name() -> None:
    changed = builders.infrastructure(nfsVolumes=[])
    own = distinct_name("demo", "cloud-resources", KIND.reference("kyma-system", "default"))
    for name in ("demo-cloud-resources", own):
        for taken in (frozenset[str](), frozenset({"demo-cloud-resources"}) - {name}):
            steps = writes_after(snapshot(reading(changed), builders.module_config(name)), taken)
            assert {step.name for step in steps} == {name}


TEMPLATE = builders.template()


def end(
    kyma: Kyma | None, template: ModuleTemplate | None = TEMPLATE, module: str = "cloud-resources"
) -> NothingToRead | None:
    """Return the end of a reconcile of a module with a ModuleConfig, None where its Module CRs are read."""
    seen = snapshot(NOTHING_READ, builders.module_config())
    return end_before_reading(replace(seen, item=kyma, template=template, module=module))


DELETED = NothingToRead((DeleteModuleConfig("demo-cloud-resources"),), forget=True)


def test_kyma_without_a_state_decides_nothing() -> None:
    """A Kyma restored from a back-up has no status yet; taking that for 'no modules' would remove everything."""
    assert end(builders.kyma()) == NothingToRead()


def test_module_whose_template_is_missing_keeps_the_configuration_that_it_has() -> None:
    status = {"state": "Ready", "modules": [{"name": "cloud-resources", "state": "Error"}]}
    assert end(builders.kyma(status=status), None) is None


def test_module_has_a_configuration_only_while_enabled_everywhere() -> None:
    status = {"state": "Ready", "modules": [{"name": "cloud-resources", "state": "Ready"}]}
    enabled = builders.kyma(status=status)
    assert end(enabled) is None
    assert end(enabled, module="other") == DELETED
    assert end(enabled, builders.template(enable_module_config=False)) == DELETED
    deleting = builders.kyma(status=status, deletionTimestamp="2026-11-01T12:00:00Z")
    assert end(deleting) is None
    left = builders.kyma(status={"state": "Deleting"}, deletionTimestamp="2026-11-01T12:00:00Z")
    assert end(left) == DELETED
    assert end(None) == DELETED


ENTRIES = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 5), st.integers(0, 300)), unique_by=lambda it: it[0], max_size=10
)
"""The number of a Module CR, when it was created, and the size of its value."""


def entries(listed: list[tuple[int, int, int]]) -> list[dict[str, Any]]:
    made = [builders.infrastructure(f"n{number}", value="x" * size) for number, _, size in listed]
    for module_cr, (_, created, _) in zip(made, listed, strict=True):
        module_cr["metadata"]["creationTimestamp"] = f"2026-11-01T12:00:0{created}Z"
    return made


def after(seen: ModuleConfigSnapshot) -> dict[str, str]:
    """Return the texts of the ModuleConfigs once the steps are carried out."""
    texts = {config.metadata.name: config.spec.resource for config in seen.existing}
    for step in writes_after(seen):
        match step:
            case ApplyModuleConfig():
                texts[step.name] = step.text
            case DeleteModuleConfig(name):
                texts.pop(name, None)
    return texts


@given(ENTRIES, ENTRIES, st.integers(1, 6), st.integers(1, 2000), st.booleans())
def test_what_was_accepted_stays_and_the_quota_is_kept(
    before: list[tuple[int, int, int]],
    now: list[tuple[int, int, int]],
    objects: int,
    size: int,
    complete: bool,
) -> None:
    quota = Quota(max_objects=objects, max_bytes=size)
    first = after(replace(snapshot(reading(*entries(before))), quota=quota))
    assert len(first) <= objects
    assert sum(map(len, first.values())) <= size
    existing = [builders.module_config(name, spec={"resource": text}) for name, text in first.items()]

    seen = replace(snapshot(reading(*entries(now), complete=complete), *existing), quota=quota)
    then = after(seen)

    there = {usual_name("demo", "cloud-resources", KIND.default, each.source) for each in map(as_read, entries(now))}
    assert set(then) >= (set(first) & there if complete else set(first))
    assert len(then) <= objects
    assert sum(map(len, then.values())) <= size


def test_newest_module_crs_exceed_the_quota_and_are_named_up_to_a_number() -> None:
    listed = entries([(number, number % 6, 0) for number in range(10)]) + [
        builders.infrastructure(f"more-{number}") for number in range(20)
    ]
    for module_cr in listed[10:]:
        module_cr["metadata"]["creationTimestamp"] = "2026-11-02T12:00:00Z"
    first = writes_after(replace(snapshot(reading(*listed)), quota=Quota(max_objects=10)))
    assert {step.source.name for step in first if isinstance(step, ApplyModuleConfig)} == {f"n{n}" for n in range(10)}
    names = after(replace(snapshot(reading(*listed)), quota=Quota(max_objects=10)))
    existing = [builders.module_config(name, spec={"resource": text}) for name, text in names.items()]

    (mark,) = [
        step
        for step in writes_after(replace(snapshot(reading(*listed), *existing), quota=Quota(max_objects=10)))
        if isinstance(step, SetCondition) and step.condition.type == COMPLETE
    ]

    assert mark.condition.reason == QUOTA_EXCEEDED
    assert "20 Module CRs exceed" in mark.condition.message
    assert mark.condition.message.endswith("and 10 more")


def test_text_that_grows_beyond_the_quota_keeps_the_last_one() -> None:
    config = builders.module_config("demo-cloud-resources", spec={"resource": "x" * 100})
    grown = builders.infrastructure(value="x" * 500)
    (mark,) = writes_after(replace(snapshot(reading(grown), config), quota=Quota(max_bytes=400)))
    assert isinstance(mark, SetCondition)
    assert (mark.name, mark.condition.reason) == ("demo-cloud-resources", QUOTA_EXCEEDED)


def test_module_cr_that_is_read_later_keeps_its_config() -> None:
    unread = replace(as_read(builders.infrastructure()), text=None)
    read = Reading(KIND.default, {unread.source: unread}, complete=True)
    assert writes_after(snapshot(read, builders.module_config())) == ()
