"""Fields that a manager adds to the status of the Module CR, and the state of its objects that it may read for them."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kyma_module_manager import (
    ModuleContext,
    Rendered,
    RenderingFailed,
    StatusRefused,
    Synced,
    module_manager,
)
from kyma_module_manager import rendering as sdk
from kyma_module_manager.plan import desired_status, status_document
from kyma_module_manager.rendering import MAX_STATUS_BYTES, MAX_STATUS_DEPTH, Rendering, checked_status, render
from kyma_module_manager.samples import sample_file
from kyma_module_manager.samples.guestbook import objects as guestbook
from kyma_module_manager.testing import render_module_cr, synced_object
from lifecycle_manager.contract import verdict
from lifecycle_manager_api import ModuleConfig, State, SyncResource
from tests import builders
from tests.unit.module_manager.configs import NOW, make_config

THING = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "thing"}}
TEXT = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: thing\n"


class Address(msgspec.Struct, frozen=True):
    host: str
    port: int


def things() -> Iterator[dict[str, Any]]:
    yield THING


@pytest.fixture
def context() -> ModuleContext:
    return ModuleContext(make_config())


@pytest.mark.parametrize("in_thread", [False, True])
async def test_function_returns_objects_and_fields(context: ModuleContext, in_thread: bool) -> None:
    @module_manager("cloud-resources", crd=dict, in_thread=in_thread)
    def objects(config: dict[str, Any]) -> Rendered:
        return Rendered(things(), status=Address("example.com", 443))

    rendering = await render(objects, context)
    assert (rendering.objects, rendering.status) == ((THING,), {"host": "example.com", "port": 443})


async def test_coroutine_function_returns_objects_and_fields(context: ModuleContext) -> None:
    @module_manager("cloud-resources", crd=dict)
    async def objects(config: dict[str, Any], context: ModuleContext) -> Rendered:
        return Rendered([THING], status={"kyma": context.kyma})

    assert (await render(objects, context)).status == {"kyma": "kyma-one"}


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


def endless() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["self"] = value
    return value


@pytest.mark.parametrize(
    ("status", "message"),
    [
        ({"state": "Ready"}, r"status\.state is written by Lifecycle Manager"),
        ({"conditions": []}, r"status\.conditions is written by Lifecycle Manager"),
        ({"observedGeneration": 1}, r"status\.observedGeneration is written by Lifecycle Manager"),
        ({"text": "x" * MAX_STATUS_BYTES}, f"more than the maximum of {MAX_STATUS_BYTES}"),
        (nested(MAX_STATUS_DEPTH), "nested deeper than 16 levels"),
        (nested(10_000), "status"),
        (endless(), "status"),
        (["a"], "status is a list, not a mapping or struct"),
        (None, "status is a NoneType"),
        ({"at": object()}, "status: .*object"),
        ({"text": "\ud800"}, "status: "),
    ],
)
async def test_status_that_can_not_be_written_is_refused_with_the_reason(
    context: ModuleContext, status: Any, message: str
) -> None:
    @module_manager("cloud-resources", crd=dict)
    def objects(config: dict[str, Any]) -> Rendered:
        return Rendered([THING], status=status)

    with pytest.raises(StatusRefused, match=message):
        await render(objects, context)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
)


@given(VALUES)
def test_any_status_is_plain_values_within_the_limits_or_refused(status: Any) -> None:
    try:
        checked = checked_status(status)
    except StatusRefused:
        return
    assert msgspec.json.decode(msgspec.json.encode(checked)) == checked
    assert not checked.keys() & verdict.MANAGED_FIELDS
    assert len(msgspec.json.encode(checked)) <= verdict.MAX_STATUS_BYTES


def test_limits_are_those_of_lifecycle_manager() -> None:
    assert (sdk.MANAGED_FIELDS, sdk.MAX_STATUS_BYTES, sdk.MAX_STATUS_DEPTH) == (
        verdict.MANAGED_FIELDS,
        verdict.MAX_STATUS_BYTES,
        verdict.MAX_STATUS_DEPTH,
    )


def written(config: ModuleConfig, outcome: Any) -> ModuleConfig | None:
    """Return the ModuleConfig with the status that is written for an outcome; None where none is."""
    document = status_document(config, desired_status(config, None, outcome), NOW)
    if document is None:
        return None
    status = msgspec.json.decode(msgspec.json.encode(document["status"]), type=type(config.status))
    return msgspec.structs.replace(config, status=status)


def module_status(config: ModuleConfig | None) -> Any:
    assert config is not None
    return msgspec.json.decode(config.status.module_status)


def test_fields_are_written_once_and_go_when_the_function_returns_none() -> None:
    first = written(make_config(), Rendering((), TEXT, {"volumes": 2}))
    assert module_status(first) == {"volumes": 2}
    assert first is not None
    assert written(first, Rendering((), TEXT, {"volumes": 2})) is None
    assert module_status(written(first, Rendering((), TEXT, {"volumes": 3}))) == {"volumes": 3}
    assert module_status(written(first, Rendering((), TEXT))) is None


def test_failed_run_and_deletion_keep_the_fields() -> None:
    first = written(make_config(), Rendering((), TEXT, {"volumes": 2}))
    assert first is not None
    assert module_status(written(first, RenderingFailed("KeyError"))) == {"volumes": 2}
    assert module_status(written(first, None)) == {"volumes": 2}


def test_nothing_is_synced_before_the_first_report() -> None:
    assert ModuleContext(make_config()).synced() == Synced()
    unreported = builders.sync_resource()
    assert ModuleContext(make_config(), unreported).synced() == Synced()


def reported(generation: int) -> SyncResource:
    ready = {
        "type": "Ready",
        "status": "False",
        "reason": "ObjectsNotReady",
        "message": "StatefulSet db: 0 of 1 replica is ready",
        "lastTransitionTime": "2026-11-01T12:00:00Z",
    }
    synced = [{"group": "apps", "version": "v1", "kind": "StatefulSet", "namespace": "shop", "name": "db"}]
    status = {"state": "Processing", "observedGeneration": generation, "conditions": [ready], "synced": synced}
    return builders.sync_resource(status=status, generation=2)


@pytest.mark.parametrize(("generation", "is_current"), [(1, False), (2, True)])
def test_state_of_all_objects_and_of_each_is_synced(generation: int, is_current: bool) -> None:
    synced = ModuleContext(make_config(), reported(generation)).synced()
    assert (synced.state, synced.reason, synced.is_current) == (State.PROCESSING, "ObjectsNotReady", is_current)
    assert synced.message == "StatefulSet db: 0 of 1 replica is ready"
    assert synced.find("StatefulSet", "db", "shop", group="apps") == synced.objects[0]
    assert synced.find("StatefulSet", "db", "shop") is None
    with pytest.raises(AttributeError):
        synced.objects[0].name = "other"  # type: ignore[misc]


async def test_guestbook_shows_the_state_of_database_and_application() -> None:
    example = sample_file("guestbook", "example.yaml").read_text()
    first = await render_module_cr(guestbook, example)
    assert first.status == {"database": "Pending", "application": "Pending"}
    ready = synced_object("StatefulSet", "default-database", "kyma-system", group="apps")
    second = await render_module_cr(guestbook, example, synced=[ready])
    assert second.status == {"database": "Ready", "application": "Pending"}
