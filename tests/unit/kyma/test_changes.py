"""Which changes of Kymas trigger other domains."""

import pytest

from kube_runtime import Change
from lifecycle_manager.contract.changes import (
    changed_modules,
    finalizer_removed,
    generation_changed,
    kyma_changed,
    modules_changed,
)
from lifecycle_manager.contract.conditions import MODULES, MODULES_REMOVED, WATCHER_SILENT, WEBHOOK, modules_removed
from lifecycle_manager_api import Kyma, names
from tests import builders

any_changed = kyma_changed()


@pytest.mark.parametrize("record", ["kymaCrd", "catalog", "watcher", "trust"])
def test_records_of_lm_are_no_change(record: str) -> None:
    assert not any_changed(Change(builders.kyma(), builders.kyma(records={record: "x"})))
    assert any_changed(Change(builders.kyma(), builders.kyma(annotations={"example.com/theirs": "x"})))


def test_condition_counts_where_a_domain_reads_it() -> None:
    kyma, removed = (
        builders.kyma(),
        builders.kyma(status={"conditions": [builders.condition(MODULES, MODULES_REMOVED)]}),
    )
    assert not any_changed(Change(kyma, removed))
    assert kyma_changed(modules_removed)(Change(kyma, removed))
    assert not kyma_changed(modules_removed)(Change(removed, removed))


def test_lost_condition_is_a_change_for_all() -> None:
    kyma = builders.kyma(status={"conditions": [builders.condition(WEBHOOK, WATCHER_SILENT)]})
    assert any_changed(Change(kyma, builders.kyma()))


def test_fault_of_the_event_path_changes_the_modules() -> None:
    silent = builders.kyma(status={"conditions": [builders.condition(WEBHOOK, WATCHER_SILENT)]})
    assert modules_changed(Change(builders.kyma(), silent))
    assert not modules_changed(Change(builders.kyma(), builders.kyma(labels={"a": "b"})))


def test_request_of_an_operator_concerns_all_modules() -> None:
    asked = builders.kyma(annotations={names.RECONCILE_AT: "2026-11-22T12:00:00+00:00"})
    assert changed_modules(Change(builders.kyma(), asked)) is None
    assert modules_changed(Change(builders.kyma(), asked))
    assert not modules_changed(Change(asked, asked))


def test_new_version_concerns_its_module_alone_as_do_added_and_removed_ones() -> None:
    def kyma(**versions: str) -> Kyma:
        modules = [builders.module_status(name, version) for name, version in versions.items()]
        return builders.kyma(status={"state": "Ready", "modules": modules})

    old = kyma(keda="1.0.0", istio="1.0.0", nats="1.0.0")
    new = kyma(keda="1.1.0", istio="1.0.0", serverless="1.0.0")
    assert changed_modules(Change(old, new)) == frozenset({"keda", "nats", "serverless"})
    assert changed_modules(Change(old, old)) == frozenset()


def test_created_and_deleted_objects_have_another_generation() -> None:
    manifest = builders.manifest()
    for change in (Change(None, manifest), Change(manifest, None), Change(manifest, builders.manifest(generation=2))):
        assert generation_changed(change)
    assert not generation_changed(Change(manifest, builders.manifest(labels={"a": "b"})))


def test_finalizer_is_lost_only_by_an_object_that_had_it() -> None:
    held, free = builders.manifest(finalizers=["example.com/mine"]), builders.manifest()
    assert finalizer_removed("example.com/mine", Change(held, free))
    assert not finalizer_removed("example.com/mine", Change(free, held))
    assert not finalizer_removed("example.com/mine", Change(held, None))
