"""What an operator does before its functions are called, beside them, and at the end; and when it is ready."""

import asyncio
import logging
from functools import partial

from kube_runtime import Manager, Resource
from kube_runtime.operator import Operator

NAMESPACES = Resource.dynamic("", "v1", "Namespace", "namespaces", namespaced=False)
log = logging.getLogger("hooks")
operator = Operator("hooks")


@operator.extends
def hooks(manager: Manager) -> None:
    manager.before_start(partial(prepare, manager))
    manager.runs(partial(beat, manager), name="heartbeat")
    manager.check("namespaces", lambda: bool(manager.informer(NAMESPACES).list()) or "there is no namespace")


async def prepare(manager: Manager) -> None:
    """Check what the operator needs; what this raises ends it."""
    log.info("before the start: Kubernetes %s", await manager.client.server_version())


async def beat(manager: Manager) -> None:
    """Work in the background until the operator stops."""
    try:
        while True:
            log.info("%d namespaces", len(manager.informer(NAMESPACES).list()))
            await asyncio.sleep(5)
    finally:
        log.info("cleaned up")
