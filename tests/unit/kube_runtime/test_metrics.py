"""Metrics carry controller-runtime's names."""

import asyncio

from prometheus_client import CollectorRegistry, generate_latest

from kube_runtime import Causes, ClusterUnreachable, Result, RetryPolicy, RuntimeMetrics
from kube_runtime.controller.options import ControllerOptions
from kube_runtime.controller.workers import Workers
from tests.waiting import eventually


async def test_what_a_controller_does_is_exposed_under_the_names_that_dashboards_know() -> None:
    registry = CollectorRegistry()
    metrics = RuntimeMetrics(registry)
    failed = False

    async def reconcile(_key: str, _causes: Causes) -> Result:
        nonlocal failed
        if not failed:
            failed = True
            raise ClusterUnreachable("once")
        return Result()

    controller = Workers(
        "things",
        reconcile,
        ControllerOptions(concurrency=2, retry=RetryPolicy(base_seconds=0.001, rate=0)),
        metrics=metrics,
    )
    metrics.request("200", "GET", "k.example:443")
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(controller.run())
        controller.queue.add("a")
        await eventually(lambda: metrics.controller("things", 2).results["success"])
        await controller.shutdown(60)

    lines = set(generate_latest(registry).decode().splitlines())
    assert lines >= {
        'controller_runtime_reconcile_total{controller="things",result="success"} 1.0',
        'controller_runtime_reconcile_total{controller="things",result="error"} 1.0',
        'controller_runtime_reconcile_errors_total{controller="things"} 1.0',
        'controller_runtime_terminal_reconcile_errors_total{controller="things"} 0.0',
        'controller_runtime_max_concurrent_reconciles{controller="things"} 2.0',
        'controller_runtime_active_workers{controller="things"} 0.0',
        'controller_runtime_reconcile_time_seconds_count{controller="things"} 2.0',
        'workqueue_adds_total{name="things"} 2.0',
        'workqueue_retries_total{name="things"} 1.0',
        'workqueue_depth{name="things",priority="0"} 0.0',
        'workqueue_unfinished_work_seconds{name="things"} 0.0',
        'workqueue_queue_duration_seconds_count{name="things"} 2.0',
        'workqueue_work_duration_seconds_count{name="things"} 2.0',
        'rest_client_requests_total{code="200",host="k.example:443",method="GET"} 1.0',
    }
