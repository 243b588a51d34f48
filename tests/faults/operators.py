"""Operators of `kube_runtime.operator` under faults."""

import asyncio
from collections.abc import Iterable
from typing import Any

from kube_crds import crd_of
from kube_runtime.controller.retries import RetryPolicy
from kube_runtime.manager import Manager, ManagerOptions
from kube_runtime.operator import Operator
from kube_runtime.resource import JsonObject
from tests.faults.checking import FaultReport, check_under_faults
from tests.faults.workload import Process, Script, Workload

__all__ = ["check_operator_under_faults"]


async def check_operator_under_faults(
    operator: Operator, script: Script, *, initial: Iterable[JsonObject] = (), **options: Any
) -> FaultReport:
    """Run an operator and what users do under each fault at each place. Raises AssertionError with what was found.

    - `initial`: objects that are there before, beside the operator's CRDs
    - `options`: as of `check_under_faults`
    """

    async def process(process: Process) -> None:
        retry = RetryPolicy(base_seconds=0.01, max_seconds=0.1)
        manager = Manager(
            process.client, ManagerOptions(name=operator.name, resync_seconds=process.resync_seconds, retry=retry)
        )
        operator.setup(manager, observed=process.observed)
        await manager.run(asyncio.Event())

    workload = Workload(process=process, script=script, initial=(*map(crd_of, operator.kinds), *initial))
    report = await check_under_faults(workload, **options)
    report.raise_findings()
    return report
