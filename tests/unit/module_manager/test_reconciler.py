"""One reconcile: what is written, in which order, and what is said about it."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec
import pytest

from kube_runtime import ObjectKey, Result
from kyma_module_manager import ModuleManager, PermanentError, RenderingFailed, module_manager
from kyma_module_manager.latest import Latest
from kyma_module_manager.metrics import ManagerMetrics
from kyma_module_manager.reconciler import Reconciler
from lifecycle_manager_api import ModuleConfig, SyncResource

MakeConfig = Callable[..., ModuleConfig]
MakeSyncResource = Callable[..., SyncResource]


class ControlPlane:
    """Keeps what is written the way an API server does, and shows it in the caches only when told to."""

    def __init__(self) -> None:
        self.configs: dict[ObjectKey, ModuleConfig] = {}
        self.sync_resources: dict[ObjectKey, SyncResource] = {}
        self.written: list[tuple[str, Mapping[str, Any]]] = []
        self.version = 1000

    async def sync_resource(self, document: Mapping[str, Any]) -> SyncResource:
        self.written.append(("SyncResource", document))
        self.version += 1
        metadata = {
            **document["metadata"],
            "uid": "sync-uid",
            "generation": self.version,
            "resourceVersion": str(self.version),
        }
        return msgspec.convert({**document, "metadata": metadata}, SyncResource)

    async def status(self, document: Mapping[str, Any]) -> ModuleConfig:
        self.written.append(("status", document))
        self.version += 1
        config = self.configs[ObjectKey(document["metadata"]["namespace"], document["metadata"]["name"])]
        return msgspec.structs.replace(
            config,
            metadata=msgspec.structs.replace(config.metadata, resource_version=str(self.version)),
            status=msgspec.convert(document["status"], type(config.status)),
        )

    async def delete_sync_resource(self, existing: SyncResource) -> None:
        self.written.append(("deleted", {"name": existing.metadata.name}))

    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.written]


@pytest.fixture
def plane() -> ControlPlane:
    return ControlPlane()


@module_manager("cloud-resources", crd=dict)
def servers(config: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for volume in config["spec"]["nfsVolumes"]:
        if volume["server"] == "nowhere":
            raise PermanentError("nowhere is no server", reason="NoSuchServer")
        yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": volume["name"]}, "data": volume}


def reconciler(
    plane: ControlPlane,
    now: datetime,
    manager: ModuleManager[dict[str, Any]] = servers,
    settle_seconds: float = 0,
) -> Reconciler[dict[str, Any]]:
    return Reconciler(
        manager,
        Latest(plane.configs),
        Latest(plane.sync_resources),
        plane,
        ManagerMetrics(manager.module),
        now=lambda: now,
        settle_seconds=settle_seconds,
        resync_seconds=600,
    )


async def test_sync_resource_is_written_before_the_status(
    plane: ControlPlane, key: ObjectKey, make_config: MakeConfig, now: datetime
) -> None:
    plane.configs[key] = make_config()

    await reconciler(plane, now).reconcile(key)

    assert plane.kinds() == ["SyncResource", "status"]


async def test_second_reconcile_writes_nothing(
    plane: ControlPlane, key: ObjectKey, make_config: MakeConfig, now: datetime
) -> None:
    plane.configs[key] = make_config()
    loop = reconciler(plane, now)
    await loop.reconcile(key)
    plane.written.clear()

    assert await loop.reconcile(key) == Result(requeue_after=600)
    assert plane.written == []


async def test_change_and_change_back_end_on_the_last_though_the_cache_lags(
    plane: ControlPlane, key: ObjectKey, make_config: MakeConfig, now: datetime
) -> None:
    first, second = (
        make_config(),
        make_config(make_config().spec.resource.replace("10.250.0.10", "10.250.0.11")),
    )
    loop = reconciler(plane, now, settle_seconds=60)
    for config in (first, second, first):
        plane.configs[key] = config
        await loop.reconcile(key)

    texts = [document["spec"]["resource"] for kind, document in plane.written if kind == "SyncResource"]

    assert len(texts) == 3
    assert texts[0] == texts[2] != texts[1]


async def test_processing_is_said_only_when_it_lasts(
    plane: ControlPlane, key: ObjectKey, make_config: MakeConfig, now: datetime
) -> None:
    plane.configs[key] = make_config()

    result = await reconciler(plane, now, settle_seconds=60).reconcile(key)

    assert plane.kinds() == ["SyncResource"]
    assert result.requeue_after is not None
    assert 0 < result.requeue_after <= 60


async def test_ready_is_said_at_once(
    plane: ControlPlane,
    key: ObjectKey,
    make_config: MakeConfig,
    now: datetime,
) -> None:
    plane.configs[key] = make_config()
    loop = reconciler(plane, now, settle_seconds=60)
    await loop.reconcile(key)
    applied = await plane.sync_resource(plane.written[0][1])
    status = {"state": "Ready", "observedGeneration": applied.metadata.generation}
    plane.sync_resources[key] = msgspec.structs.replace(applied, status=msgspec.convert(status, type(applied.status)))

    await loop.reconcile(key)

    kind, document = plane.written[-1]
    assert (kind, document["status"]["state"]) == ("status", "Ready")


async def test_failure_is_said_and_tried_again(
    plane: ControlPlane, key: ObjectKey, make_config: MakeConfig, now: datetime
) -> None:
    @module_manager("cloud-resources", crd=dict)
    def broken(config: dict[str, Any]) -> None:
        raise OSError("no route")

    plane.configs[key] = make_config()

    with pytest.raises(RenderingFailed, match="OSError: no route"):
        await reconciler(plane, now, broken).reconcile(key)
    ((kind, document),) = plane.written
    assert kind == "status"
    assert document["status"]["state"] == "Error"


async def test_permanent_error_is_said_and_left_at_that(
    plane: ControlPlane, key: ObjectKey, make_config: MakeConfig, now: datetime
) -> None:
    plane.configs[key] = make_config(make_config().spec.resource.replace("10.250.0.10", "nowhere"))

    assert await reconciler(plane, now).reconcile(key) == Result()
    ((_, document),) = plane.written
    reasons = {each["type"]: each["reason"] for each in document["status"]["conditions"]}
    assert reasons == {"Rendered": "NoSuchServer", "Ready": "NoSuchServer"}


async def test_module_config_without_a_module_cr_leaves_the_objects_as_they_are(
    plane: ControlPlane, key: ObjectKey, make_config: MakeConfig, now: datetime
) -> None:
    plane.configs[key] = make_config("")

    await reconciler(plane, now).reconcile(key)

    assert plane.kinds() == ["status"]


async def test_module_config_on_its_way_out_only_says_so(
    plane: ControlPlane, key: ObjectKey, make_config: MakeConfig, now: datetime
) -> None:
    plane.configs[key] = make_config(deleting=True)

    await reconciler(plane, now).reconcile(key)

    ((kind, document),) = plane.written
    assert (kind, document["status"]["state"]) == ("status", "Deleting")


async def test_module_config_that_is_gone_needs_nothing(plane: ControlPlane, key: ObjectKey, now: datetime) -> None:
    assert await reconciler(plane, now).reconcile(key) == Result()
    assert plane.written == []


async def test_sync_resource_of_a_leaving_config_is_deleted_once(
    plane: ControlPlane,
    key: ObjectKey,
    make_config: MakeConfig,
    make_sync_resource: MakeSyncResource,
    now: datetime,
) -> None:
    plane.configs[key] = make_config(deleting=True)
    plane.sync_resources[key] = make_sync_resource()
    loop = reconciler(plane, now)

    await loop.reconcile(key)
    plane.sync_resources[key] = make_sync_resource(deleting=True)
    await loop.reconcile(key)

    assert plane.kinds().count("deleted") == 1
    assert "SyncResource" not in plane.kinds()
