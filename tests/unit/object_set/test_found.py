"""What existed in a cluster before a set had it: which objects these are, and what of the set's marks they lose."""

from typing import Any

import msgspec
import pytest

from kube_runtime import InventoryEntry, ObjectKey
from kyma_takeover.marks import APPLIER
from kyma_takeover.marks import MANAGED_BY as FORMER
from lifecycle_manager.contract.resources import FIELD_MANAGER
from lifecycle_manager.object_set.apply import released_metadata
from lifecycle_manager.object_set.inventory import found_before, own_inventory, references_to
from lifecycle_manager.object_set.ownership import SetOwner, existed_before
from lifecycle_manager.object_set.reporting import with_found
from lifecycle_manager_api import ManifestStatus, names
from tests import builders

ENTRY = InventoryEntry("", "v1", "ConfigMap", "shop", "a")
OTHER = InventoryEntry("", "v1", "ConfigMap", "shop", "b")
OWNER = SetOwner(ObjectKey("kcp-system", "demo-garden"), "garden", is_module=True)


def live(**metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a", "uid": "1", "resourceVersion": "7", **metadata}}


@pytest.mark.parametrize(
    ("there", "is_found"),
    [
        (live(), True),
        (live(labels={"app": "mine"}), True),
        (None, True),  # it may not be read
        (live(labels={names.MANAGED_BY: names.LIFECYCLE_MANAGER}), False),
        (live(labels={names.MANAGED_BY: FORMER}), False),
        (live(labels={names.MANAGED_BY: "helm"}), True),
        (live(deletionTimestamp="2026-11-01T12:00:00Z"), False),
    ],
)
def test_object_without_marks_of_the_lifecycle_manager_existed_before(
    there: dict[str, Any] | None, *, is_found: bool
) -> None:
    assert existed_before({ENTRY: there}, ()) == ({ENTRY.identity} if is_found else set())


def test_object_that_another_set_has_found_existed_before_whatever_its_marks() -> None:
    marked = live(labels={names.MANAGED_BY: names.LIFECYCLE_MANAGER})
    assert existed_before({ENTRY: marked, OTHER: marked}, {ENTRY.identity}) == {ENTRY.identity}


def manager(name: str, **metadata: dict[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {f"f:{section}": {f"f:{key}": {} for key in keys} for section, keys in metadata.items()}
    return {"manager": name, "operation": "Apply", "fieldsV1": {"f:metadata": fields}}


def test_released_object_loses_marks_and_managers_but_what_others_have_too() -> None:
    ours = [manager(each) for each in (FIELD_MANAGER, APPLIER)]
    user = manager("kubectl", labels={names.PART_OF: {}}, annotations={})
    before = live(
        labels={**OWNER.all_labels, names.WATCHED_BY: "somebody", "app": "mine"},
        annotations={**OWNER.annotations, "note": "mine"},
        managedFields=[*ours, user],
    )
    patch = released_metadata(OWNER, before)
    assert patch == {
        "uid": "1",
        "resourceVersion": "7",
        "labels": {names.MANAGED_BY: None, names.MODULE_NAME: None, names.COMPONENT: None},
        "annotations": dict.fromkeys(OWNER.annotations),
        "managedFields": [user],
    }


def test_managed_fields_without_others_become_one_empty_entry() -> None:
    assert released_metadata(OWNER, live(managedFields=[manager(FIELD_MANAGER)]))["managedFields"] == [{}]


def test_status_names_only_what_is_still_in_the_inventory_and_existed_before() -> None:
    third = InventoryEntry("", "v1", "ConfigMap", "shop", "c")
    status = ManifestStatus(synced=references_to([ENTRY, OTHER]), found=references_to([ENTRY, OTHER, third]))
    kept = with_found(status, {ENTRY.identity, third.identity})
    assert kept.found == references_to([ENTRY])


def test_what_existed_before_is_no_part_of_what_may_be_deleted() -> None:
    manifest = msgspec.structs.replace(
        builders.manifest("garden", "1.0.0"),
        status=ManifestStatus(synced=references_to([ENTRY, OTHER]), found=references_to([ENTRY])),
    )
    assert found_before(manifest) == {ENTRY.identity}
    assert own_inventory(manifest) == (OTHER,)
