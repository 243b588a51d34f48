"""The paths of state checks: what they find, by references of others, and what is no path."""

import re
from typing import Any

import jsonpath
import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lifecycle_manager.catalog_sync.wanted import wanted_catalog
from lifecycle_manager.module_catalog.offer import Offer
from lifecycle_manager.module_catalog.state_paths import PathBroken, state_path, value_at
from lifecycle_manager_api import CustomStateCheck, ModuleTemplate, State
from lifecycle_manager_api.module_template import MAX_PATH_LENGTH, MAX_PATH_SEGMENTS, STATE_PATH
from tests import builders
from tests.cpu_time import takes_at_most

NAMES = st.sampled_from(("a", "b", "status", "0", "a-b", "a_b"))
ODD_NAMES = st.text(st.characters(exclude_characters="'\"\\", exclude_categories=["Cs"]), min_size=1, max_size=4)
DOCUMENTS = st.recursive(
    st.sampled_from(("x", 1, None, True)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | ODD_NAMES, inner, max_size=3),
    max_leaves=12,
)
SEGMENTS = st.one_of(
    NAMES.map(lambda name: f".{name}"),
    ODD_NAMES.map(lambda name: f"['{name}']"),
    NAMES.map(lambda name: f'["{name}"]'),
    st.integers(0, 3).map(lambda index: f"[{index}]"),
)
PIECES = st.sampled_from(
    (*"$.[]'\"*?@(),: \\ab0-/", "..", "[0]", ".a", "[?(@.a)]", "[*]", "[0:1]", "\u00e4", "\n", "[00000]")
)


def is_path(text: str) -> bool:
    try:
        state_path(text)
    except PathBroken:
        return False
    return True


def with_path(text: str) -> ModuleTemplate:
    template = builders.template("garden", "1.0.0")
    check = CustomStateCheck(json_path=text, value="x", mapped_state=State.READY)
    return msgspec.structs.replace(template, spec=msgspec.structs.replace(template.spec, custom_state_check=(check,)))


@given(document=DOCUMENTS, names=st.lists(NAMES, min_size=1, max_size=4))
def test_dotted_names_find_what_the_lifecycle_manager_in_go_finds(document: Any, names: list[str]) -> None:
    """It splits a path at its dots, and asks one map after the other."""
    expected: tuple[Any, ...] = (document,)
    for name in names:
        expected = tuple(each[name] for each in expected if isinstance(each, dict) and name in each)
    assert value_at(document, state_path(".".join(names))) == expected


@given(document=DOCUMENTS, segments=st.lists(SEGMENTS, min_size=1, max_size=4))
@example(document={"a": [{"b": "x"}]}, segments=[".a", "[0]", "['b']"])
def test_names_and_indexes_find_what_a_library_for_jsonpath_finds(document: Any, segments: list[str]) -> None:
    if any(each[1:] == "0" for each in segments):
        return  # a name of digits is an index for the library, where it meets a list
    text = "".join(segments)
    try:
        expected = jsonpath.findall(f"${text}", document) if isinstance(document, dict | list) else []
    except jsonpath.JSONPathError:
        return  # a character that RFC 9535 wants escaped
    assert [*value_at(document, state_path(text))] == expected


@given(st.lists(PIECES, max_size=12).map("".join) | st.text(max_size=20))
@example("status" + ".a" * (MAX_PATH_SEGMENTS - 1))
@example("status" + ".a" * MAX_PATH_SEGMENTS)
@example("a" * (MAX_PATH_LENGTH + 1))
def test_api_server_and_lifecycle_manager_refuse_the_same_paths(text: str) -> None:
    pattern = re.compile(STATE_PATH.replace("$", r"\Z"), re.ASCII)  # as an API server reads it: $ is the end of a text
    assert is_path(text) is (len(text) <= MAX_PATH_LENGTH and pattern.search(text) is not None)


@pytest.mark.parametrize("unit", ["a", ".a", "[0]", "[", "['", "['a']", ".", "$", "\u00e4", ".a[", "[0"])
def test_length_of_a_path_costs_nothing(unit: str) -> None:
    path = unit * 1_000_000 + "1"
    assert not is_path(path)
    assert takes_at_most(0.05, lambda: is_path(path))


def test_template_with_an_invalid_check_does_not_break_the_catalog_of_a_cluster() -> None:
    template = with_path("$..*")
    (copy,) = (each.item for each in wanted_catalog(Offer.of([template], []), {}).items.values())
    assert isinstance(copy, ModuleTemplate)
    assert copy.spec.custom_state_check == ()
