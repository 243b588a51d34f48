"""Subscribers that stand in for the Lifecycle Manager's own."""

from lifecycle_manager.events.endpoint import Subscriber, VerifiedEvent


def into(taken: list[VerifiedEvent]) -> Subscriber:
    async def take(verified: VerifiedEvent) -> None:
        taken.append(verified)

    return take
