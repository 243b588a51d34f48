"""A rate for the RESYNCs of each Kyma: the first two at once, then one in 30 s, and the last one never lost.

A Watcher that starts sends one at once, and one when the API server has reached it.

Each makes Lifecycle Manager read everything of a cluster, and in a cluster whose Pods reach its Watcher anybody can
cause them (docs/watcher.md). The key is the name of a Kyma.
"""

from dataclasses import dataclass, field

from kube_runtime import Causes, Controller, Manager, ObjectKey, RateLimit, Result
from lifecycle_manager.contract.resources import KYMAS
from lifecycle_manager.contract.signals import ResyncReported, ResyncRequested
from lifecycle_manager_api import names

RESYNC_SECONDS, AT_ONCE = 30.0, 2


@dataclass(eq=False, slots=True)
class ResyncState:
    """How often RESYNCs of a Kyma are published, and whether one waits for that."""

    limit: RateLimit = field(default_factory=lambda: RateLimit(1 / RESYNC_SECONDS, AT_ONCE))
    is_pending: bool = False


def setup(manager: Manager) -> Controller[str, ResyncState]:
    """Publish ResyncRequested for the RESYNCs that were reported."""
    kymas = manager.informer(KYMAS)
    controller: Controller[str, ResyncState] = manager.controller(
        "resync",
        state=ResyncState,
        owner=str,
        exists=lambda name: kymas.get(ObjectKey(names.KCP_NAMESPACE, name)) is not None,
        is_limited=False,
    )
    controller.receives(ResyncReported, to=lambda signal: (signal.kyma,), cause=lambda signal: signal)

    async def publish(kyma: str, causes: Causes, state: ResyncState) -> Result:
        state.is_pending |= bool(causes)
        if not state.is_pending:
            return Result()
        now = manager.clock.monotonic()
        if not state.limit.grants(now):
            return Result(requeue_after=state.limit.wait(now))
        state.is_pending = False
        manager.publish(ResyncRequested(kyma))
        return Result()

    controller.reconciles(publish)
    return controller
