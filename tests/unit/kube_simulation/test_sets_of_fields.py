"""Sets of owned fields are sets: what holds of sets of paths holds of them."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kube_simulation.fields import FieldSet, applied_fields, compare, difference, intersection, union
from kube_simulation.merging import merge, merge_patch, prune
from kube_simulation.schemas import object_shape

PARTS = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
    "items": {"type": "object", "properties": {"name": {"type": "string"}, "note": {"type": "string"}}},
}
SHAPE = object_shape(
    {
        "properties": {
            "size": {"type": "integer"},
            "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "parts": PARTS,
            "plain": {"type": "array", "items": {"type": "string"}},
            "options": {"type": "object", "additionalProperties": {"type": "string"}},
            "nested": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}},
        }
    }
)
WORDS = st.sampled_from("abc")
PART = st.fixed_dictionaries({"name": WORDS}, optional={"note": WORDS})
DOCUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "size": st.integers(1, 3),
        "tags": st.lists(WORDS, unique=True, min_size=1),
        "parts": st.lists(PART, unique_by=lambda part: part["name"], min_size=1),
        "plain": st.lists(WORDS),
        "options": st.dictionaries(WORDS, WORDS, min_size=1),
        "nested": st.fixed_dictionaries({"a": WORDS}, optional={"b": WORDS}),
    },
)
SETS = st.builds(lambda document: applied_fields(document, SHAPE), DOCUMENTS)


def members(fields: FieldSet, path: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    found: set[tuple[str, ...]] = set()
    for step, node in fields.items():
        if step != ".":
            found |= {(*path, step)} if not node or "." in node else set()
            found |= members(node, (*path, step))
    return found


@given(SETS, SETS)
def test_union_intersection_and_difference_are_those_of_the_paths(one: FieldSet, other: FieldSet) -> None:
    assert members(union(one, other)) == members(one) | members(other)
    assert members(intersection(one, other)) == members(one) & members(other)
    assert members(difference(one, other)) == members(one) - members(other)


@given(DOCUMENTS, DOCUMENTS)
def test_comparison_is_empty_for_the_same_alone_and_mirrors(one: dict[str, Any], other: dict[str, Any]) -> None:
    there, back = compare(one, other, SHAPE), compare(other, one, SHAPE)
    assert bool(there) == (one != other) or _same_but_for_order(one, other)
    assert members(there.added) == members(back.removed)
    assert members(there.modified) == members(back.modified)


@given(DOCUMENTS, DOCUMENTS)
def test_what_is_applied_is_there_and_applying_it_again_changes_nothing(
    live: dict[str, Any], applied: dict[str, Any]
) -> None:
    merged = merge(live, applied, SHAPE)
    assert merge(merged, applied, SHAPE) == merged
    assert members(applied_fields(applied, SHAPE)) <= members(applied_fields(merged, SHAPE))


@given(DOCUMENTS, DOCUMENTS)
def test_who_lets_go_of_everything_leaves_what_others_own(theirs: dict[str, Any], ours: dict[str, Any]) -> None:
    merged = merge(theirs, ours, SHAPE)
    left = prune(merged, applied_fields(ours, SHAPE), applied_fields(theirs, SHAPE), SHAPE)
    assert members(applied_fields(left, SHAPE)) == members(applied_fields(theirs, SHAPE))


@given(DOCUMENTS, DOCUMENTS)
def test_merge_patch_gives_what_it_names_and_null_takes_away(live: dict[str, Any], patch: dict[str, Any]) -> None:
    patched = merge_patch(live, patch)
    for key, value in patch.items():
        assert patched[key] == value or isinstance(value, dict)
    assert merge_patch(patched, dict.fromkeys(patched)) == {}


def _same_but_for_order(one: dict[str, Any], other: dict[str, Any]) -> bool:
    def ordered(document: dict[str, Any]) -> dict[str, Any]:
        sets: dict[str, Any] = {key: sorted(map(str, document[key])) for key in ("tags", "parts") if key in document}
        return {**document, **sets}

    return ordered(one) == ordered(other)
