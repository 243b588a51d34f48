"""Reading one's own writes before the watch brings them back."""

from collections.abc import Callable

import pytest

from kube_runtime import ObjectKey
from kyma_module_manager.latest import Latest
from lifecycle_manager_api import SyncResource

MakeSyncResource = Callable[..., SyncResource]
Cache = dict[ObjectKey, SyncResource]


@pytest.fixture
def cache() -> Cache:
    return {}


@pytest.fixture
def latest(cache: Cache) -> Latest[SyncResource]:
    return Latest(cache)


def test_write_is_seen_before_the_cache_has_it(
    latest: Latest[SyncResource], cache: Cache, key: ObjectKey, make_sync_resource: MakeSyncResource
) -> None:
    cache[key] = make_sync_resource("A", version="9")
    latest.wrote(key, make_sync_resource("B", version="10"))

    found = latest.get(key)

    assert found is not None
    assert found.spec.resource == "B"


def test_cache_wins_once_it_has_caught_up(
    latest: Latest[SyncResource], cache: Cache, key: ObjectKey, make_sync_resource: MakeSyncResource
) -> None:
    latest.wrote(key, make_sync_resource("B", version="10"))
    cache[key] = make_sync_resource("C", version="11")

    assert latest.get(key) is cache[key]


def test_own_write_is_known_by_its_version(
    latest: Latest[SyncResource], key: ObjectKey, make_sync_resource: MakeSyncResource
) -> None:
    latest.wrote(key, make_sync_resource("B", version="10"))

    assert latest.is_own_write(key, make_sync_resource("B", version="10"))
    assert not latest.is_own_write(key, make_sync_resource("B", version="11"))


def test_write_to_a_deleted_object_is_forgotten(
    latest: Latest[SyncResource], key: ObjectKey, make_sync_resource: MakeSyncResource
) -> None:
    latest.wrote(key, make_sync_resource("B"))

    latest.gone(key, "sync-uid")

    assert latest.get(key) is None
    assert latest.seconds_since_write(key) is None


def test_late_deletion_of_the_predecessor_does_not_hide_the_write(
    latest: Latest[SyncResource], key: ObjectKey, make_sync_resource: MakeSyncResource
) -> None:
    latest.wrote(key, make_sync_resource("B", uid="second"))

    latest.gone(key, "first")

    assert latest.get(key) is not None


def test_time_since_the_write_is_told_after_the_cache_caught_up(
    cache: Cache, key: ObjectKey, make_sync_resource: MakeSyncResource
) -> None:
    moments = iter((5.0, 5.5))
    latest: Latest[SyncResource] = Latest(cache, clock=lambda: next(moments))
    latest.wrote(key, make_sync_resource("B", version="10"))
    cache[key] = make_sync_resource("B", version="10")
    latest.get(key)

    assert latest.seconds_since_write(key) == 0.5
