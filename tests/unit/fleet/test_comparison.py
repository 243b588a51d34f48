"""`klm diff`: how differences are printed."""

import io

from kube_runtime import InventoryEntry
from kube_runtime.apply.difference import ObjectDifference, difference_between
from kyma_fleet.comparison.report import ClusterComparison, ComparedObject
from kyma_fleet.screen import Screen

ENTRY = InventoryEntry("", "v1", "ConfigMap", "ns", "limits")


def shown(*differences: ObjectDifference, colour: bool = False) -> str:
    stream = io.StringIO()
    found = ClusterComparison(kyma="demo", objects=tuple(map(ComparedObject.of, differences)))
    found.print_table(Screen(colour, None, stream))
    return stream.getvalue()


def config_map(value: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "limits"}, "data": {"a": value}}


def test_change_is_shown_line_by_line_without_control_characters() -> None:
    text = shown(difference_between(ENTRY, 0, config_map("1\x1b[2J"), config_map("2")))
    assert "~ " in text
    assert "differs and would be changed" in text
    assert "\x1b" not in text
    assert '    +  a: "2"' in text.splitlines()
    assert "\x1b[32m" in shown(difference_between(ENTRY, 0, config_map("1"), config_map("2")), colour=True)


def test_what_is_as_wanted_is_counted_alone() -> None:
    same = difference_between(ENTRY, 0, config_map("1"), config_map("1"))
    assert shown(same) == "1 object: 1 as wanted\n"
    others = ObjectDifference(ENTRY, None, "prune"), ObjectDifference(ENTRY, 0, "fail", error="refused\nby policy")
    assert shown(same, *others).splitlines()[-1] == "3 objects: 1 as wanted, 1 no longer wanted, 1 not comparable"
    assert "can't be compared: refused by policy" in shown(*others)
