"""What belongs to a trace follows from how a controller is put together: its triggers, steps and requests."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as plain_text

from kube_runtime import (
    Causes,
    Client,
    Controller,
    Manager,
    ManagerOptions,
    ObjectKey,
    Result,
)
from kube_runtime.health import LoopMonitor, ProbeServer
from kube_runtime.metrics import RuntimeMetrics
from kube_runtime.tracing import exemplar, handed_on, part, present
from tests.kinds import CONFIG_MAPS
from tests.unit.diagnostics.recorded import Exported, tracer_with
from tests.waiting import eventually

NAMESPACE = "default"
TRACE = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"
OTHER = "00-fedcba9876543210fedcba9876543210-0123456789abcdef-01"
Reconcile = Callable[[ObjectKey, Causes, None], Any]


@dataclass(frozen=True, slots=True)
class Written:
    name: str


@asynccontextmanager
async def running(client: Client, exported: Exported, reconcile: Reconcile) -> AsyncIterator[Manager]:
    """Run a controller of ConfigMaps that receives a signal, with a tracer."""
    manager = Manager(
        client, ManagerOptions(trace_annotation="trace"), namespace=NAMESPACE, tracer=tracer_with(exported)
    )
    config_maps = manager.informer(CONFIG_MAPS)
    controller: Controller[ObjectKey, None] = manager.controller("maps")
    controller.watches(config_maps)
    controller.receives(Written, to=lambda signal: [ObjectKey(NAMESPACE, signal.name)])
    controller.reconciles(reconcile)
    stopping = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(manager.run(stopping))
        await eventually(lambda: manager.working)
        yield manager
        stopping.set()


def config_map(name: str, value: str, trace: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "annotations": {"trace": trace}}, "data": {"value": value}}


async def test_signal_in_a_trace_makes_the_reconcile_with_steps_and_requests_part_of_it(
    client: Client,
) -> None:
    exported, handed = Exported(), list[str]()

    async def reconcile(key: ObjectKey, _causes: Causes, _state: None) -> Result:
        if key.name == "one":
            handed.append(handed_on(TRACE))
            assert exemplar() == {"trace_id": TRACE[3:35]}
            assert handed_on(OTHER) == OTHER
            with part("Write"):
                await client.apply(CONFIG_MAPS, "written", {"data": {"value": "x"}}, NAMESPACE, field_manager="test")
        return Result()

    async with running(client, exported, reconcile) as manager:
        with manager.traced("verification", TRACE, kyma="demo"):
            assert manager.publish(Written("one")) == 1
        await eventually(lambda: "reconcile maps" in exported.names)

    by_name = {each.name: each for each in exported.spans}
    path = ["verification", "reconcile maps", "Write", "PATCH configmaps"]
    assert set(by_name) == set(path)
    for above, below in pairwise(path):
        parent, context = by_name[below].parent, by_name[above].context
        assert parent is not None
        assert context is not None
        assert parent.span_id == context.span_id
    request = by_name["PATCH configmaps"].attributes or {}
    assert request["url.path"] == "/api/v1/namespaces/default/configmaps/written"
    context = by_name["reconcile maps"].context
    assert context is not None
    assert handed == [f"{TRACE[:36]}{context.span_id:016x}-01"]


async def test_object_written_as_part_of_a_trace_continues_it_and_other_changes_do_not(client: Client) -> None:
    exported, reconciled = Exported(), list[str]()

    async def reconcile(key: ObjectKey, causes: Causes, _state: None) -> Result:
        reconciled.append(causes.trace)
        assert not causes.of(object)
        return Result()

    async with running(client, exported, reconcile) as manager:
        await client.create(CONFIG_MAPS, config_map("one", "a", TRACE), NAMESPACE, field_manager="test")
        await eventually(lambda: reconciled == [TRACE])
        await client.merge_patch(CONFIG_MAPS, "one", {"data": {"value": "b"}}, NAMESPACE)
        await eventually(lambda: reconciled == [TRACE, ""])
        await client.merge_patch(CONFIG_MAPS, "one", config_map("one", "c", OTHER), NAMESPACE)
        await eventually(lambda: reconciled == [TRACE, "", OTHER])
        manager.publish(Written("one"))
        await eventually(lambda: len(reconciled) == 4)

    assert exported.names == ["reconcile maps"] * 2
    assert present() == ""


async def test_retry_and_a_repetition_at_once_stay_in_the_trace_and_the_interval_does_not(client: Client) -> None:
    exported, traces = Exported(), list[str]()

    async def reconcile(_key: ObjectKey, causes: Causes, _state: None) -> Result:
        traces.append(causes.trace)
        if len(traces) == 1:
            raise ConnectionError("once")
        return Result(requeue_after=0.001 if len(traces) == 2 else 600)

    async with running(client, exported, reconcile) as manager:
        with manager.traced("verification", TRACE):
            manager.publish(Written("one"))
        await eventually(lambda: len(traces) == 3)
        assert traces[0] == traces[1] == traces[2] != ""
        (controller,) = manager.controllers.values()
        assert not controller.waiting_causes(ObjectKey(NAMESPACE, "one"))

    assert [each.status.is_ok for each in exported.spans if each.name == "reconcile maps"] == [False, True, True]


async def test_without_a_tracer_nothing_is_measured(client: Client) -> None:
    manager = Manager(client, namespace=NAMESPACE)
    with manager.traced("verification", TRACE), part("PATCH kymas"):
        assert present() == ""
        assert exemplar() is None
        assert handed_on(TRACE) == TRACE


def test_open_metrics_have_the_same_samples_as_the_text_format_and_exemplars() -> None:
    registry = CollectorRegistry()
    metrics = RuntimeMetrics(registry)
    metrics.controller("maps", 1).reconcile_seconds.observe(0.2)
    metrics.queue("maps").adds += 1
    metrics.request("200", "GET", "host")
    Counter("things", "Things.", registry=registry).inc()
    Histogram("change_seconds", "Seconds.", registry=registry).observe(0.3, exemplar={"trace_id": TRACE[3:35]})
    probes = ProbeServer(LoopMonitor(), {}, registry=registry)

    text_type, text = probes.answer("/metrics")[1:]
    open_type, open_text = probes.answer("/metrics", "application/openmetrics-text;version=1.0.0,text/plain;q=0.5")[1:]
    assert text_type.startswith("text/plain")
    assert open_type.startswith("application/openmetrics-text")
    families = open_metrics(open_text.decode())  # type: ignore[no-untyped-call]
    plain = [each for family in plain_text(text.decode()) for each in family.samples]
    rich = [each for family in families for each in family.samples]
    names = [{(each.name, *sorted(each.labels.items())) for each in found} for found in (plain, rich)]
    assert names[0] == names[1]
    (marked,) = [each for each in rich if each.exemplar]
    assert marked.exemplar is not None
    assert (marked.labels["le"], marked.exemplar.labels) == ("0.5", {"trace_id": TRACE[3:35]})
