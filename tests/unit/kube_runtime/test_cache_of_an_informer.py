"""The cache: by key, by index, and consistent after any sequence of writes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from kube_runtime import Cache, Index, ObjectKey
from kube_runtime.informer.cache import MAX_IN_TUPLE

WRITES = some.lists(
    some.tuples(
        some.integers(0, MAX_IN_TUPLE + 3), some.one_of(some.none(), some.frozensets(some.sampled_from("xyz")))
    ),
    max_size=60,
)


def values_of(item: dict[str, Any]) -> list[str]:
    return [*item["values"], *item["values"]]  # saying a value twice is no mistake


@given(WRITES)
def test_index_always_equals_a_search(writes: list[tuple[int, frozenset[str] | None]]) -> None:
    cache: Cache[dict[str, Any]] = Cache([Index("value", values_of)])
    model: dict[ObjectKey, dict[str, Any]] = {}
    for number, values in writes:
        key = ObjectKey("", str(number))
        if values is None:
            assert cache.remove(key) == model.pop(key, None)
        else:
            new = {"values": sorted(values), "number": len(model)}
            assert cache.put(key, new) == model.get(key)
            model[key] = new

    for value in "xyz":
        found = sorted(cache.by_index("value", value), key=repr)
        assert found == sorted((item for item in model.values() if value in item["values"]), key=repr)
    assert sorted(cache.list(), key=repr) == sorted(model.values(), key=repr)
    assert len(cache) == len(model)
    assert set(cache.keys()) == set(model)


@pytest.mark.parametrize("count", [1, MAX_IN_TUPLE, MAX_IN_TUPLE + 1])
def test_index_has_few_and_many_objects_under_a_value(count: int) -> None:
    cache: Cache[dict[str, Any]] = Cache([Index("value", values_of)])
    items = [{"values": ["x"], "number": number} for number in range(count)]
    for number, item in enumerate(items):
        cache.put(ObjectKey("", str(number)), item)
    assert list(cache.by_index("value", "x")) == items
    for number in range(count):
        cache.remove(ObjectKey("", str(number)))
        assert list(cache.by_index("value", "x")) == items[number + 1 :]


def test_index_that_was_not_declared_is_a_mistake() -> None:
    with pytest.raises(KeyError):
        Cache([]).by_index("nothing", "x")
