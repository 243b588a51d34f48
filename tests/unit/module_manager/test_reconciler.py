"""One reconcile: the writes, their order, and the status."""

from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec
import pytest

from kube_runtime import Causes, Client, Forbidden, Informer, Invalid, RequestTooLarge, Result
from kyma_module_manager import ModuleManager, PermanentError, RenderingFailed, module_manager
from kyma_module_manager.metrics import ManagerMetrics
from kyma_module_manager.reconciler import KeyState, Reconciler
from kyma_module_manager.writer import MODULE_CONFIGS, SYNC_RESOURCES
from lifecycle_manager_api import ModuleConfig, SyncResource
from lifecycle_manager_api.kinds import MAX_TEXT_BYTES
from tests.clocks import ManualClock
from tests.unit.module_manager.configs import KEY, make_config, make_sync_resource


class ControlPlane:
    """Records writes and answers them, and shows them in the caches only when a test says so."""

    def __init__(self) -> None:
        nowhere = cast("Client", None)
        self.configs, self.sync_resources = Informer(nowhere, MODULE_CONFIGS), Informer(nowhere, SYNC_RESOURCES)
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
        config = self.configs.get(KEY)
        assert config is not None
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
    plane = ControlPlane()
    plane.configs.cache.put(KEY, make_config())
    return plane


@module_manager("cloud-resources", crd=dict)
def servers(config: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for volume in config["spec"]["nfsVolumes"]:
        if volume["server"] == "nowhere":
            raise PermanentError("unknown server nowhere", reason="NoSuchServer")
        yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": volume["name"]}, "data": volume}


class Loop:
    def __init__(
        self,
        plane: ControlPlane,
        manager: ModuleManager[dict[str, Any]] = servers,
        *,
        settle_seconds: float = 0,
    ) -> None:
        self.state = KeyState()
        self.clock = ManualClock()
        self.reconciler = Reconciler(
            manager,
            plane.configs,
            plane.sync_resources,
            plane,
            ManagerMetrics(manager.module),
            clock=self.clock,
            settle_seconds=settle_seconds,
            resync_seconds=600,
        )

    async def reconcile(self) -> Result:
        return await self.reconciler.reconcile(KEY, Causes(), self.state)


async def test_sync_resource_is_written_before_the_status(plane: ControlPlane) -> None:
    await Loop(plane).reconcile()

    assert plane.kinds() == ["SyncResource", "status"]


async def test_second_reconcile_writes_nothing(plane: ControlPlane) -> None:
    loop = Loop(plane)
    await loop.reconcile()
    plane.written.clear()

    assert await loop.reconcile() == Result(requeue_after=600)
    assert plane.written == []


async def test_change_and_its_reversal_are_both_written_although_the_cache_is_behind(plane: ControlPlane) -> None:
    text = make_config().spec.resource
    changed = text.replace("10.250.0.10", "10.250.0.11")
    loop = Loop(plane, settle_seconds=60)
    for config in (
        make_config(text),
        make_config(changed, resourceVersion="101"),
        make_config(text, resourceVersion="102"),
    ):
        plane.configs.cache.put(KEY, config)
        await loop.reconcile()

    texts = [document["spec"]["resource"] for kind, document in plane.written if kind == "SyncResource"]

    assert len(texts) == 3
    assert texts[0] == texts[2] != texts[1]


async def test_processing_is_not_written_immediately(plane: ControlPlane) -> None:
    result = await Loop(plane, settle_seconds=60).reconcile()

    assert plane.kinds() == ["SyncResource"]
    assert result.requeue_after == 60


async def test_processing_is_written_after_it_has_lasted(plane: ControlPlane) -> None:
    loop = Loop(plane, settle_seconds=60)
    await loop.reconcile()

    loop.clock.advance(60)
    await loop.reconcile()

    assert plane.kinds() == ["SyncResource", "status"]


async def test_ready_is_written_immediately(plane: ControlPlane) -> None:
    loop = Loop(plane, settle_seconds=60)
    await loop.reconcile()
    applied = await plane.sync_resource(plane.written[0][1])
    status = {"state": "Ready", "observedGeneration": applied.metadata.generation}
    plane.sync_resources.cache.put(
        KEY, msgspec.structs.replace(applied, status=msgspec.convert(status, type(applied.status)))
    )

    await loop.reconcile()

    kind, document = plane.written[-1]
    assert (kind, document["status"]["state"]) == ("status", "Ready")


async def test_failure_is_written_to_the_status_and_retried(plane: ControlPlane) -> None:
    @module_manager("cloud-resources", crd=dict)
    def broken(config: dict[str, Any]) -> list[dict[str, Any]]:
        raise OSError("no route")

    with pytest.raises(RenderingFailed, match="OSError: no route"):
        await Loop(plane, broken).reconcile()
    ((kind, document),) = plane.written
    assert kind == "status"
    assert document["status"]["state"] == "Error"


async def test_refusal_of_the_control_plane_is_in_the_status_and_one_line_of_the_log(
    plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(_: Mapping[str, Any]) -> SyncResource:
        raise Forbidden(403, "Forbidden", "its CRD is terminating")

    monkeypatch.setattr(plane, "sync_resource", refuse)
    with pytest.raises(Forbidden):  # logged in one line; other exceptions are mistakes, with their traces
        await Loop(plane).reconcile()
    ((kind, document),) = plane.written
    rendered = next(each for each in document["status"]["conditions"] if each["type"] == "Rendered")
    assert (kind, rendered["reason"]) == ("status", "SyncResourceRefused")


TOO_LONG = {"causes": [{"reason": "FieldValueTooLong", "field": "spec.resource", "message": "Too long"}]}


@pytest.mark.parametrize(
    "refusal",
    [
        Invalid(422, "Invalid", "spec.resource: Too long", TOO_LONG),
        RequestTooLarge(500, "InternalError", "etcdserver: request is too large"),
    ],
)
async def test_what_is_refused_for_its_size_is_reported_once_and_not_retried(
    plane: ControlPlane, monkeypatch: pytest.MonkeyPatch, refusal: Exception
) -> None:
    async def refuse(_: Mapping[str, Any]) -> SyncResource:
        raise refusal

    monkeypatch.setattr(plane, "sync_resource", refuse)
    assert await Loop(plane).reconcile() == Result()
    ((_, document),) = plane.written
    rendered = next(each for each in document["status"]["conditions"] if each["type"] == "Rendered")
    assert rendered["reason"] == "ObjectsRefused"
    assert "the largest is ConfigMap media (v1) with 138" in rendered["message"]


async def test_objects_that_are_too_large_are_reported_and_neither_written_nor_retried(plane: ControlPlane) -> None:
    @module_manager("cloud-resources", crd=dict)
    def large(_: dict[str, Any]) -> Iterator[dict[str, Any]]:
        for name in ("one", "two"):
            data = {"text": "x" * (MAX_TEXT_BYTES // 2)}
            yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}

    assert await Loop(plane, large).reconcile() == Result()
    ((kind, document),) = plane.written
    assert kind == "status"
    rendered = next(each for each in document["status"]["conditions"] if each["type"] == "Rendered")
    assert rendered["reason"] == "ObjectsRefused"
    assert f"more than the maximum of {MAX_TEXT_BYTES}" in rendered["message"]


async def test_permanent_error_is_written_to_the_status_and_not_retried(plane: ControlPlane) -> None:
    plane.configs.cache.put(KEY, make_config(make_config().spec.resource.replace("10.250.0.10", "nowhere")))

    assert await Loop(plane).reconcile() == Result()
    ((_, document),) = plane.written
    reasons = {each["type"]: each["reason"] for each in document["status"]["conditions"]}
    assert reasons == {"Rendered": "NoSuchServer", "Ready": "NoSuchServer"}


async def test_module_config_without_a_module_cr_does_not_change_the_objects(plane: ControlPlane) -> None:
    plane.configs.cache.put(KEY, make_config(""))

    await Loop(plane).reconcile()

    assert plane.kinds() == ["status"]


async def test_module_config_that_is_being_deleted_gets_only_a_status(plane: ControlPlane) -> None:
    plane.configs.cache.put(KEY, make_config(deleting=True))

    await Loop(plane).reconcile()

    ((kind, document),) = plane.written
    assert (kind, document["status"]["state"]) == ("status", "Deleting")


async def test_deleted_module_config_causes_no_write(plane: ControlPlane) -> None:
    plane.configs.cache.remove(KEY)
    assert await Loop(plane).reconcile() == Result()
    assert plane.written == []


async def test_sync_resource_of_a_config_that_is_being_deleted_is_deleted_once(plane: ControlPlane) -> None:
    plane.configs.cache.put(KEY, make_config(deleting=True))
    plane.sync_resources.cache.put(KEY, make_sync_resource())
    loop = Loop(plane)

    await loop.reconcile()
    plane.sync_resources.cache.put(KEY, make_sync_resource(deleting=True))
    await loop.reconcile()

    assert plane.kinds().count("deleted") == 1
    assert "SyncResource" not in plane.kinds()
