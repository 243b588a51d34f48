"""Which events wake a manager."""

from collections.abc import Callable

import pytest

from kube_runtime import Change, ObjectKey
from kyma_module_manager.changes import module_config_handler, sync_resource_handler
from kyma_module_manager.latest import Latest
from lifecycle_manager_api import ModuleConfig, SyncResource

MakeConfig = Callable[..., ModuleConfig]
MakeSyncResource = Callable[..., SyncResource]


@pytest.fixture
def noticed() -> list[ObjectKey]:
    return []


def test_new_content_wakes_it(noticed: list[ObjectKey], key: ObjectKey, make_config: MakeConfig) -> None:
    handle = module_config_handler(Latest({}), noticed.append)

    handle(Change(old=None, new=make_config()))
    handle(Change(old=make_config(), new=make_config(generation=2)))
    handle(Change(old=make_config(), new=make_config(deleting=True)))
    handle(Change(old=make_config(), new=make_config(annotations={})))

    assert noticed == [key] * 4


def test_status_of_a_module_config_does_not_wake_it(noticed: list[ObjectKey], make_config: MakeConfig) -> None:
    handle = module_config_handler(Latest({}), noticed.append)

    handle(Change(old=make_config(), new=make_config(version="101", status={"state": "Ready"})))

    assert noticed == []


def test_module_config_that_is_gone_does_not_wake_it(noticed: list[ObjectKey], make_config: MakeConfig) -> None:
    handle = module_config_handler(Latest({}), noticed.append)

    handle(Change(old=make_config(), new=None))

    assert noticed == []


def test_status_of_a_sync_resource_wakes_it(
    noticed: list[ObjectKey], key: ObjectKey, make_sync_resource: MakeSyncResource
) -> None:
    handle = sync_resource_handler(Latest({}), noticed.append)

    handle(Change(old=make_sync_resource(), new=make_sync_resource(version="201", status={"state": "Ready"})))

    assert noticed == [key]


def test_echo_of_its_own_write_does_not_wake_it(
    noticed: list[ObjectKey], key: ObjectKey, make_sync_resource: MakeSyncResource
) -> None:
    latest: Latest[SyncResource] = Latest({})
    latest.wrote(key, make_sync_resource(version="201"))
    handle = sync_resource_handler(latest, noticed.append)

    handle(Change(old=make_sync_resource(), new=make_sync_resource(version="201")))

    assert noticed == []


def test_sync_resource_that_somebody_deleted_wakes_it(
    noticed: list[ObjectKey], key: ObjectKey, make_sync_resource: MakeSyncResource
) -> None:
    handle = sync_resource_handler(Latest({}), noticed.append)

    handle(Change(old=make_sync_resource(), new=None))

    assert noticed == [key]
