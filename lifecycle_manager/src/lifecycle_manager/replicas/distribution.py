"""Each event goes to the replica that has its Kyma. The sender gets its answer only once the event was taken there."""

from kube_runtime.leases.handover import HandOver
from kube_runtime.leases.membership import Membership
from lifecycle_manager.events.endpoint import Subscriber, VerifiedEvent
from lifecycle_manager.events.publishing import EventPublisher
from lifecycle_manager.replicas.sending import TIMEOUT_SECONDS, Deliveries


def distributed(publisher: EventPublisher, membership: Membership, deliveries: Deliveries) -> Subscriber:
    """Return a subscriber that takes the events for this replica's Kymas here, and hands over the others."""
    hand_over: HandOver[VerifiedEvent] = HandOver(
        membership, accept=publisher.take, deliver=deliveries.deliver, timeout_seconds=TIMEOUT_SECONDS
    )

    async def take(verified: VerifiedEvent) -> None:
        for kyma in publisher.kymas_of(verified):
            await hand_over.give(kyma.metadata.name, verified)

    return take
