"""Finds out when a cluster that gave no answer is back, so that all that waits for it goes on at once.

The key is the name of a Kyma. A cluster that stays silent is probed after growing pauses, by workers of their own: the
others are not kept waiting by it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import structlog

from kube_runtime import Result
from lifecycle_manager.skr.access import SkrAccessError
from lifecycle_manager.skr.connections import Connections

log = structlog.get_logger("skr")


@dataclass(frozen=True, eq=False)
class ClusterProbe:
    """Probes clusters, and tells `on_answer` the names of the Kymas whose cluster answers again."""

    connections: Connections
    on_answer: Callable[[str], None]

    async def reconcile(self, kyma_name: str) -> Result:
        """Probe one cluster. Raises ClusterUnreachable, so that it is probed again after a pause."""
        try:
            await self.connections.probe(kyma_name)
        except SkrAccessError:
            return Result()  # its credentials are gone; new ones wake all that needs them
        log.info("cluster answers again", kyma=kyma_name)
        self.on_answer(kyma_name)
        return Result()
