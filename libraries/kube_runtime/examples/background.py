"""A task of its own for each object, from its creation to its deletion. A timer is simpler wherever it is enough."""

import asyncio
import logging
from typing import ClassVar

from kube_crds import CustomResource, Struct
from kube_runtime import Manager, ObjectKey
from kube_runtime.operator import Operator, Owner

log = logging.getLogger("background")
operator = Operator("background")
tasks: dict[ObjectKey, asyncio.Task[None]] = {}


class SensorSpec(Struct, frozen=True, kw_only=True):
    seconds: float = 5
    """The time between two measurements."""


class Sensor(CustomResource, frozen=True, kw_only=True):
    GROUP: ClassVar[str] = "background.example.com"
    spec: SensorSpec = SensorSpec()
    """What is wanted."""


async def measure(key: ObjectKey, seconds: float) -> None:
    while True:
        log.info("%s measures", key.name)
        await asyncio.sleep(seconds)


@operator.reconciles(Sensor, every=60)
async def start(sensor: Sensor, owner: Owner[Sensor]) -> None:
    name = str(sensor.spec)
    task = tasks.get(owner.key)
    if task is not None and not task.done() and task.get_name() == name:
        return
    await stop(sensor, owner)
    tasks[owner.key] = asyncio.create_task(measure(owner.key, sensor.spec.seconds), name=name)


@operator.finalizes(Sensor)
async def stop(_sensor: Sensor, owner: Owner[Sensor]) -> None:
    if (task := tasks.pop(owner.key, None)) is not None:
        task.cancel()
        await asyncio.wait([task])
        log.info("%s stopped", owner.key.name)


@operator.extends
def stop_all(manager: Manager) -> None:
    async def until_the_end() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            for task in tasks.values():
                task.cancel()

    manager.runs(until_the_end, name="sensors")
