"""Every event to the replica that looks after its Kyma. Whoever sent it is answered only once it was taken there."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from kube_runtime.leases import HandOver
from lifecycle_manager.events import VerifiedEvent
from lifecycle_manager.replicas.sending import TIMEOUT_SECONDS, Deliveries
from lifecycle_manager.replicas.sharing import Shared
from lifecycle_manager.routing import EventRouter


@dataclass(frozen=True, eq=False)
class Distribution:
    """The subscriber of every manager's path."""

    router: EventRouter
    give: Callable[[str, VerifiedEvent], Awaitable[None]]

    @classmethod
    def here(cls, router: EventRouter) -> "Distribution":
        """Take every event here."""

        async def take(kyma_name: str, verified: VerifiedEvent) -> None:
            router.take(kyma_name, verified)

        return cls(router, take)

    @classmethod
    def among(cls, router: EventRouter, shared: Shared, deliveries: Deliveries) -> "Distribution":
        """Take those of this replica's Kymas here, and hand over the others."""
        hand_over: HandOver[VerifiedEvent] = HandOver(
            shared.membership, accept=router.take, deliver=deliveries.deliver, timeout_seconds=TIMEOUT_SECONDS
        )
        return cls(router, hand_over.give)

    async def __call__(self, verified: VerifiedEvent) -> None:
        """Have an event taken. Raises UnknownRuntime where no Kyma has that runtime, NotHandedOver."""
        for kyma in self.router.kymas_of(verified):
            await self.give(kyma.metadata.name, verified)
