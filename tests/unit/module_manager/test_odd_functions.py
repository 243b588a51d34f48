"""What a function returns or raises that is no SyncResource ends in a condition, whatever it is."""

import asyncio
import sys
import threading
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from kube_runtime import Causes
from kyma_module_manager import ModuleContext, ObjectsRefused, PermanentError, RenderingFailed, module_manager
from kyma_module_manager.metrics import ManagerMetrics
from kyma_module_manager.reconciler import KeyState, Reconciler
from kyma_module_manager.rendering import decode_module_cr, encode_objects
from lifecycle_manager_api import ModuleConfig, SyncResource
from tests import builders
from tests.unit.module_manager.configs import KEY, make_config, make_sync_resource
from tests.unit.module_manager.test_reconciler import ControlPlane


def config_map(**data: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "b"}, "data": data}


def endless() -> dict[str, Any]:
    document = config_map()
    document["data"] = document
    return document


UNWRITABLE: dict[str, Any] = {
    "an object of Python": config_map(a=object()),
    "half of a surrogate pair": config_map(a="\ud800"),
    "a key that is none": config_map() | {"data": {None: "a"}},
    "a key that is a tuple": config_map() | {"data": {(1, 2): "a"}},
    "itself": endless(),
}


@pytest.mark.parametrize("document", UNWRITABLE.values(), ids=UNWRITABLE)
def test_object_that_is_no_json_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(ObjectsRefused, match="object 0"):
        encode_objects([document])


def test_numbers_as_keys_are_the_texts_that_they_are_in_json() -> None:
    assert '"8080": web' in encode_objects([config_map() | {"data": {8080: "web", "b": "c"}}]).text


class Broken(msgspec.Struct):
    spec: dict[str, Any]

    def __post_init__(self) -> None:
        self.spec["missing"]


def test_exception_of_the_type_is_that_of_the_function() -> None:
    with pytest.raises(RenderingFailed, match="KeyError: 'missing'"):
        decode_module_cr(Broken, "spec: {}")


async def reconciled(manager: Any, config: ModuleConfig, existing: SyncResource | None = None) -> Any:
    plane = ControlPlane()
    plane.configs.cache.put(KEY, config)
    if existing is not None:
        plane.sync_resources.cache.put(KEY, existing)
    reconciler = Reconciler(manager, plane.configs, plane.sync_resources, plane, ManagerMetrics("cloud-resources"))
    with suppress(RenderingFailed):
        await reconciler.reconcile(KEY, Causes(()), KeyState())
    return plane.written


async def test_condition_says_that_an_object_is_none() -> None:
    manager = module_manager("cloud-resources", crd=dict)(lambda _: [config_map(a=object())])
    [(kind, document)] = await reconciled(manager, make_config())
    assert kind == "status"
    assert document["status"]["conditions"][0]["reason"] == "ObjectsRefused"


async def test_text_that_somebody_edited_is_replaced() -> None:
    def objects(_: dict[str, Any], context: ModuleContext) -> list[dict[str, Any]]:
        started = context.written("ConfigMap", "a", "b") is not None
        return [config_map(started=str(started))]

    manager = module_manager("cloud-resources", crd=dict)(objects)
    written = await reconciled(manager, make_config(), make_sync_resource("data: [edited by hand"))
    assert "SyncResource" in [kind for kind, _ in written]


@pytest.mark.parametrize(
    ("returned", "why"), [(None, "returned None"), (config_map(), "object 0 is a str")], ids=["None", "one object"]
)
async def test_function_that_returns_no_list_deletes_nothing(returned: Any, why: str) -> None:
    manager = module_manager("cloud-resources", crd=dict)(lambda _: returned)
    [(kind, document)] = await reconciled(manager, make_config(), make_sync_resource("data"))
    assert kind == "status"
    assert why in document["status"]["conditions"][0]["message"]


@pytest.mark.parametrize("reason", ["too wide", "", "too-wide", "1st"])
async def test_reason_that_no_condition_may_have_is_in_the_message(reason: str) -> None:
    def refuses(_: dict[str, Any]) -> list[dict[str, Any]]:
        raise PermanentError("use at most /16", reason=reason)

    [(_, document)] = await reconciled(module_manager("cloud-resources", crd=dict)(refuses), make_config())
    rendered = document["status"]["conditions"][0]
    assert rendered["reason"] == "Refused"
    assert rendered["message"] == (f"{reason}: use at most /16" if reason else "use at most /16")


@pytest.mark.parametrize("in_thread", [False, True])
async def test_function_that_would_end_the_process_fails(in_thread: bool) -> None:
    manager = module_manager("cloud-resources", crd=dict, in_thread=in_thread)(lambda _: sys.exit("no such region"))
    with pytest.raises(RenderingFailed, match="SystemExit: no such region"):
        await manager.rendered({}, ModuleContext(make_config()))


async def test_functions_that_never_return_delay_no_others() -> None:
    returns, started = threading.Event(), list[str]()

    def objects(config: dict[str, Any]) -> list[dict[str, Any]]:
        started.append(config["name"])
        if config["name"] == "hangs":
            returns.wait(60)
        return []

    manager = module_manager("cloud-resources", crd=dict, in_thread=True, timeout_seconds=2)(objects)
    contexts = [ModuleContext(builders.module_config(f"kyma-{number}")) for number in range(50)]
    try:
        runs = (manager.rendered({"name": "hangs"}, context) for context in contexts)
        outcomes = await asyncio.gather(*runs, return_exceptions=True)
        assert all("timed out" in str(each) for each in outcomes)
        with pytest.raises(RenderingFailed, match="still runs"):
            await manager.rendered({"name": "hangs"}, contexts[0])
        assert (await manager.rendered({"name": "other"}, ModuleContext(make_config()))).objects == ()
    finally:
        returns.set()
    for thread in [each for each in threading.enumerate() if each.name.startswith("cloud-resources")]:
        thread.join()
    assert started.count("hangs") == len(contexts)
    assert (await manager.rendered({"name": "hangs"}, contexts[0])).objects == ()


async def test_function_that_got_no_thread_runs_the_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    manager = module_manager("cloud-resources", crd=dict, in_thread=True)(lambda _: [])
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuses)
        with pytest.raises(RenderingFailed, match="can't start new thread"):
            await manager.rendered({}, ModuleContext(make_config()))
    assert (await manager.rendered({}, ModuleContext(make_config()))).objects == ()


async def test_module_that_is_deleted_while_the_function_runs_does_not_come_back() -> None:
    plane = ControlPlane()
    plane.configs.cache.put(KEY, make_config())

    def objects(_: dict[str, Any]) -> list[dict[str, Any]]:
        plane.configs.cache.put(KEY, make_config(deleting=True))
        return [config_map()]

    manager = module_manager("cloud-resources", crd=dict)(objects)
    reconciler = Reconciler(manager, plane.configs, plane.sync_resources, plane, ManagerMetrics("cloud-resources"))
    await reconciler.reconcile(KEY, Causes(()), KeyState())
    assert plane.written == []


async def test_timeout_within_the_function_is_reported_as_what_it_is() -> None:
    def objects(_: dict[str, Any]) -> list[dict[str, Any]]:
        raise TimeoutError("the price list did not answer")

    with pytest.raises(RenderingFailed, match="TimeoutError: the price list did not answer"):
        await module_manager("cloud-resources", crd=dict)(objects).rendered({}, ModuleContext(make_config()))


async def test_stop_iteration_in_a_thread_fails_at_once() -> None:
    def objects(_: dict[str, Any]) -> list[dict[str, Any]]:
        return [next(iter([]))]

    manager = module_manager("cloud-resources", crd=dict, in_thread=True, timeout_seconds=2)(objects)
    with pytest.raises(RenderingFailed, match="StopIteration"):
        await asyncio.wait_for(manager.rendered({}, ModuleContext(make_config())), 5)
