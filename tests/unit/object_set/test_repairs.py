"""An object that somebody changes back each time is repaired a few times in a row, then once a minute."""

from kube_runtime import InventoryEntry, ObjectOutcome
from lifecycle_manager.contract.signals import ObjectChanged, ObjectReference
from lifecycle_manager.object_set.repairs import (
    MAX_NAME_LENGTH,
    REPAIRS_IN_A_ROW,
    SECONDS_FOR_A_REPAIR,
    Repairs,
)


def change(version: int, name: str = "rose") -> ObjectChanged:
    return ObjectChanged("demo", ObjectReference("", "ConfigMap", "shop", name), "UPDATE", "uid", str(version))


def outcome(changed_by: str) -> ObjectOutcome:
    return ObjectOutcome(InventoryEntry("", "v1", "ConfigMap", "shop", "rose"), 0, "changed", changed_by=changed_by)


def test_a_fight_over_an_object_ends_in_one_repair_a_minute() -> None:
    repairs, granted = Repairs(), 0
    for second in range(600):
        granted += repairs.grants(change(second), float(second))
    assert granted <= REPAIRS_IN_A_ROW + 600 / SECONDS_FOR_A_REPAIR


def test_budget_is_that_of_one_object_and_returns() -> None:
    repairs = Repairs()
    assert [repairs.grants(change(number), 0.0) for number in range(REPAIRS_IN_A_ROW + 1)] == [True] * 5 + [False]
    assert repairs.grants(change(1, "lily"), 0.0)
    assert repairs.grants(change(99), SECONDS_FOR_A_REPAIR)
    assert not repairs.grants(change(100), SECONDS_FOR_A_REPAIR)


def test_change_that_is_reported_again_counts_once() -> None:
    repairs = Repairs()
    assert all(repairs.grants(change(1), 0.0) for _ in range(20))
    assert repairs.grants(change(2), 0.0)


def test_note_names_who_changed_the_object_last() -> None:
    repairs = Repairs()
    repairs.grants(change(1), 0.0)
    assert "ConfigMap shop/rose is changed after each repair; for now" in repairs.contested(change(1))
    repairs.remember([outcome("kubectl\nedit" + 500 * "x")])
    repairs.grants(change(2), 0.0)
    note = repairs.contested(change(2))
    assert "last by the field manager 'kubectl\\nedit" in note
    assert len(note) < 200 + MAX_NAME_LENGTH
