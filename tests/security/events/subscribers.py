"""Subscribers that stand in for the Lifecycle Manager's own."""

from lifecycle_manager.events import Subscriber, VerifiedEvent


def into(taken: list[VerifiedEvent]) -> Subscriber:
    """Return a subscriber that puts every event into a list."""

    async def take(verified: VerifiedEvent) -> None:
        taken.append(verified)

    return take
