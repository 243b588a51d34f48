"""Handing an event to the member that owns its key.

An event may reach any member. The one that does not own the key passes it on, and answers for it only when the owner
has taken it: so whoever sent the event knows to send it again otherwise.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from kube_runtime.leases.membership import Member, Membership

__all__ = ["HandOver", "NotHandedOver"]

E = TypeVar("E")


class NotHandedOver(Exception):
    """The member that owns the key did not take the event; it is to be sent again."""


class HandOver(Generic[E]):
    """Takes events for keys of this member, and passes on those for keys of others.

    - `accept` takes an event here; it must not block
    - `deliver` sends one to another member, and raises if that did not take it
    """

    def __init__(
        self,
        membership: Membership,
        *,
        accept: Callable[[str, E], None],
        deliver: Callable[[Member, str, E], Awaitable[None]],
        timeout_seconds: float = 2.0,
    ) -> None:
        self._membership = membership
        self._accept = accept
        self._deliver = deliver
        self._timeout_seconds = timeout_seconds

    async def give(self, key: str, event: E) -> None:
        """Have an event taken by the member that owns its key. Raises NotHandedOver."""
        owner = self._membership.owner_of(key)
        if owner is None:
            raise NotHandedOver("nobody is there to take it")
        if owner.identity == self._membership.identity:
            self._accept(key, event)
            return
        try:
            async with asyncio.timeout(self._timeout_seconds):
                await self._deliver(owner, key, event)
        except Exception as error:
            raise NotHandedOver(f"{owner.identity} did not take it: {error.__class__.__name__}") from error
