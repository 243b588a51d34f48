"""Each event goes to the replica that has its Kyma. The sender gets its answer only once the event was taken there."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from kube_runtime.leases import HandOver, Membership
from lifecycle_manager.events import EventPublisher, VerifiedEvent
from lifecycle_manager.replicas.sending import TIMEOUT_SECONDS, Deliveries


@dataclass(frozen=True, eq=False)
class Distribution:
    """The subscriber for the path of every manager."""

    publisher: EventPublisher
    give: Callable[[str, VerifiedEvent], Awaitable[None]]

    @classmethod
    def here(cls, publisher: EventPublisher) -> "Distribution":
        """Take every event here."""

        async def take(kyma_name: str, verified: VerifiedEvent) -> None:
            publisher.take(kyma_name, verified)

        return cls(publisher, take)

    @classmethod
    def among(cls, publisher: EventPublisher, membership: Membership, deliveries: Deliveries) -> "Distribution":
        """Take the events for this replica's Kymas here, and hand over the others."""
        hand_over: HandOver[VerifiedEvent] = HandOver(
            membership, accept=publisher.take, deliver=deliveries.deliver, timeout_seconds=TIMEOUT_SECONDS
        )
        return cls(publisher, hand_over.give)

    async def __call__(self, verified: VerifiedEvent) -> None:
        """Have an event taken. Raises UnknownRuntime where no Kyma has the runtime id, NotHandedOver."""
        for kyma in self.publisher.kymas_of(verified):
            await self.give(kyma.metadata.name, verified)
