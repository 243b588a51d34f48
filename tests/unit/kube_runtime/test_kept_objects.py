"""A cluster whose users make objects large can't fill the memory with all objects of a set."""

import json
import tracemalloc
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_runtime import Applier, ApplyMemory, ApplyResult, Client, InventoryEntry, ResponseTooLarge, parse_objects
from kube_runtime.apply import kept
from kube_runtime.apply.kept import KeptObjects
from kube_runtime.apply.memory import digest_of
from kube_simulation import Refuse, Refused, SimulatedCluster
from tests.integration.kube_runtime.things import as_text
from tests.kinds import CONFIG_MAPS
from tests.unit.kube_runtime.test_objects_of_refused_kinds import names_of

NAMES = ("one", "three", "two")
TOO_LARGE = "the objects of the set have more than 400 values in the cluster"


def config(name: str, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default", **metadata}}


OBJECTS = parse_objects(as_text(*map(config, NAMES)))


async def applied_and_enlarged(
    client: Client, monkeypatch: pytest.MonkeyPatch, labels: Mapping[str, str] | None = None
) -> tuple[Applier, ApplyResult]:
    """Apply objects that somebody makes large then, of which 400 values may be kept."""
    applier = Applier(client, field_manager="test", labels=labels or {})
    first = await applier.apply(OBJECTS)
    data = {"data": {f"key-{number}": "" for number in range(100)}, "metadata": {"finalizers": ["example.com/held"]}}
    for name in NAMES:
        await client.merge_patch(CONFIG_MAPS, name, data, "default", field_manager="somebody")
    monkeypatch.setattr(kept, "MAX_KEPT_VALUES", 400)
    return applier, first


@pytest.mark.parametrize("remembers", [True, False])
async def test_objects_of_a_set_that_are_too_large_together_fail_by_name(
    client: Client, monkeypatch: pytest.MonkeyPatch, remembers: bool
) -> None:
    applier, first = await applied_and_enlarged(client, monkeypatch)
    applier = applier if remembers else Applier(client, field_manager="test")
    result = await applier.apply(OBJECTS, first.inventory)
    assert {each.error for each in result.failed} == {TOO_LARGE}
    assert {each.live is None for each in result.failed} == {True}
    assert result.inventory == first.inventory
    for name in NAMES:
        await client.merge_patch(CONFIG_MAPS, name, {"data": None}, "default", field_manager="somebody")
    result = await applier.apply(OBJECTS, result.inventory)
    assert not result.failed


async def test_large_objects_that_others_hold_are_deleted_as_any(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    applier, first = await applied_and_enlarged(client, monkeypatch, labels={"ours": "true"})
    result = await applier.delete(first.inventory)
    assert sorted(each.error or "" for each in result.outcomes) == ["", TOO_LARGE, TOO_LARGE]
    assert result.inventory == first.inventory
    for name in NAMES:
        await client.merge_patch(CONFIG_MAPS, name, {"metadata": {"finalizers": None}}, "default")
    assert await names_of(client, CONFIG_MAPS) == []
    assert (await applier.delete(result.inventory)).inventory == ()


async def test_large_objects_are_compared_until_there_are_too_many(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    applier, _ = await applied_and_enlarged(client, monkeypatch)
    monkeypatch.setattr(kept, "MAX_KEPT_VALUES", 800)
    found = await applier.difference(OBJECTS)
    assert sorted((each.action, each.error or "") for each in found) == [
        ("fail", TOO_LARGE.replace("400", "800")),
        ("fail", TOO_LARGE.replace("400", "800")),
        ("none", ""),
    ]


@pytest.mark.parametrize("key", ["uid", "resourceVersion"])
def test_identities_of_any_length_are_not_remembered(key: str) -> None:
    memory, entry = ApplyMemory(), InventoryEntry("", "v1", "ConfigMap", "default", "one")
    live = config("one", **{"uid": "u", "resourceVersion": "5", key: "x" * 1_000_000})
    tracemalloc.start()
    memory.remember(entry, digest_of({}), live, "test")
    left, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert left < 100_000
    assert memory.is_as_applied(entry, digest_of({}), live, "test")


def count(value: Any) -> int:
    parts = [*value.values()] if isinstance(value, dict) else value if isinstance(value, list) else []
    return 1 + sum(map(count, parts))


@given(st.recursive(st.none() | st.text(max_size=200), lambda it: st.lists(it) | st.dictionaries(st.text(), it)))
def test_what_is_kept_has_no_more_values_than_are_allowed(value: Any) -> None:
    live, room = {"value": value}, KeptObjects(20)
    try:
        room.keep(live)
    except ResponseTooLarge:
        assert room.left == 20
    else:
        assert count(live) <= 20
        assert len(json.dumps(live, ensure_ascii=False)) < 20 * 200


async def test_objects_that_are_read_because_they_are_refused_are_counted(
    client: Client, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    applier, first = await applied_and_enlarged(client, monkeypatch)
    changed = parse_objects(as_text(*({**config(name), "data": {"new": "value"}} for name in NAMES)))
    with cluster.ruled_by(Refuse(lambda it: it.method == "PATCH", refused=Refused(422, "Invalid", "no such value"))):
        result = await applier.apply(changed, first.inventory)
    assert len(result.failed) == len(NAMES)
    monkeypatch.setattr(kept, "MAX_KEPT_VALUES", 1_600_000)
    result = await applier.apply(changed, result.inventory)
    assert not result.failed
