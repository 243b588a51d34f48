"""The squares of the fleet page, and which of them a filter shows."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kyma_fleet_page.fleet import Filter, Fleet, by_cause, grouped
from kyma_fleet_page.streams import filter_of
from lifecycle_manager_api import Kyma, State, names
from tests import builders

STATES = st.sampled_from([state.value for state in State])


def on_page(
    name: str, state: str = "Ready", *, version: str = "1.0.0", region: str = "eu", revision: str = "1"
) -> Kyma:
    module = builders.module_status("api", version, state)
    ready = builders.condition("Ready", "ModuleError", f"{name} is broken")
    return builders.kyma(
        name,
        status={"state": state, "modules": [module, {"name": f"made-up-{name}"}], "conditions": [ready]},
        labels={names.REGION: region},
        resourceVersion=revision,
    )


def test_page_has_the_cause_and_no_module_that_only_a_user_named() -> None:
    fleet = Fleet().updated([on_page("a", "Error"), on_page("b")])
    assert (fleet.clusters["a"].message, fleet.clusters["a"].region) == ("a is broken", "eu")
    assert list(fleet.modules) == ["api"]
    assert fleet.clusters["b"].message == ""


def test_what_is_known_of_unchanged_kymas_is_used_again() -> None:
    before = Fleet().updated([on_page("a"), on_page("b")])
    after = before.updated([on_page("a"), on_page("b", "Error", revision="2")])
    assert after.clusters["a"] is before.clusters["a"]
    assert [each.name for each in after.changed_since(before)] == ["b"]
    assert not after.has_others_than(before)
    assert after.updated([on_page("a")]).has_others_than(after)


@pytest.mark.parametrize("change", [{"version": "2.0.0"}, {"region": "us"}])
def test_change_of_what_filters_and_counts_show_is_a_change(change: dict[str, str]) -> None:
    before = Fleet().updated([on_page("a"), on_page("b")])
    after = before.updated([on_page("a", revision="2"), on_page("b", revision="2", **change)])
    assert [each.name for each in after.changed_since(before)] == ["b"]


def test_clusters_without_a_state_can_be_chosen() -> None:
    fleet = Fleet().updated([on_page("a"), on_page("b", "")])
    (new,) = fleet.states.keys() - {"Ready"}
    assert [each.name for each in fleet.shown(Filter(state=new))] == ["b"]


def test_worst_are_first() -> None:
    fleet = Fleet().updated(
        [
            on_page("a"),
            on_page("b", "Warning"),
            on_page("c", "Error"),
            on_page("d", "Processing"),
        ]
    )
    assert [each.name for each in fleet.worst_first] == ["c", "b", "d", "a"]
    assert fleet.states == {"Error": 1, "Warning": 1, "Processing": 1, "Ready": 1}


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ({}, "abc"),
        ({"state": "Error"}, "b"),
        ({"region": "us"}, "c"),
        ({"module": "api", "version": "2.0.0"}, "b"),
        ({"module": "other"}, ""),
        ({"text": "C"}, "c"),
        ({"text": "is BROKEN"}, "b"),
        ({"text": "moduleerror"}, "b"),
        ({"group": "<script>"}, "abc"),
    ],
)
def test_filter_is_read_from_the_address(query: dict[str, str], shown: str) -> None:
    fleet = Fleet().updated([on_page("a"), on_page("b", "Error", version="2.0.0"), on_page("c", region="us")])
    assert sorted(each.name for each in fleet.shown(filter_of(query))) == list(shown)


def test_recent_changes_are_those_of_being_ready_the_last_first() -> None:
    def changed(name: str, at: str) -> Kyma:
        ready = builders.condition("Ready", "ModuleError", "broken", at=f"2026-11-22T{at}:00Z")
        return builders.kyma(name, status={"state": "Error", "conditions": [ready]})

    kymas = [changed("a", "10:00"), changed("b", "12:00"), changed("c", "11:00"), builders.kyma("d")]
    fleet = Fleet().updated(kymas)
    assert [each.name for each in fleet.changes_since(datetime(2026, 11, 22, 11, tzinfo=UTC))] == ["b", "c"]


def test_changes_of_one_cause_are_one_group_in_the_order_of_the_last() -> None:
    fleet = Fleet().updated([on_page("a"), on_page("b", "Error"), on_page("c"), on_page("d", "Warning")])
    groups = by_cause(fleet.clusters[name] for name in "cbda")
    assert [[each.name for each in group] for group in groups] == [["c", "a"], ["b"], ["d"]]


def test_filters_suggest_what_clusters_have() -> None:
    fleet = Fleet().updated([on_page("a"), on_page("b", version="2.0.0"), on_page("c")])
    assert list(fleet.versions) == ["1.0.0", "2.0.0"]
    assert set(fleet.channels) == {each.channel for each in fleet.clusters.values()}


def test_clusters_are_grouped() -> None:
    fleet = Fleet().updated([on_page("a"), on_page("b", region=""), on_page("c", version="2.0.0")])
    regions = grouped(fleet.shown(Filter()), "region")
    assert {heading: [each.name for each in found] for heading, found in regions} == {"none": ["b"], "eu": ["a", "c"]}
    assert [heading for heading, _ in grouped(fleet.shown(Filter()), "version")] == ["api 1.0.0", "api 2.0.0"]


@given(st.dictionaries(st.text("abc", min_size=1, max_size=3), STATES, max_size=8))
def test_counts_are_those_of_the_clusters_that_are_shown(states: dict[str, str]) -> None:
    fleet = Fleet().updated(on_page(name, state) for name, state in states.items())
    assert sum(fleet.states.values()) == len(states)
    for state, count in fleet.states.items():
        shown = fleet.shown(Filter(state=state)) if state else [each for each in fleet.worst_first if not each.state]
        assert len(shown) == count


def any_text(_: Any = None) -> st.SearchStrategy[str]:
    return st.text(max_size=30)


@given(st.dictionaries(st.sampled_from(["state", "region", "module", "version", "text", "group"]), any_text()))
def test_any_address_is_a_filter(query: dict[str, str]) -> None:
    assert list(grouped(Fleet().updated([on_page("a")]).shown(filter_of(query)), filter_of(query).group)) is not None


def test_causes_are_grouped_by_reason_and_module_the_worst_first() -> None:
    kymas = [on_page("a", "Error"), on_page("b", "Warning"), on_page("c", "Error"), on_page("d")]
    fleet = Fleet().updated(kymas)
    assert [(each.cause, each.state, each.clusters) for each in fleet.counts.causes] == [
        ("ModuleError api", State.ERROR, 2),
        ("ModuleError api", State.WARNING, 1),
    ]
    assert fleet.counts.causes[0].example == "a is broken"
    assert [each.name for each in fleet.shown(Filter(cause="ModuleError api", state="Error"))] == ["a", "c"]
    assert not Fleet().updated([on_page("d")]).counts.causes
