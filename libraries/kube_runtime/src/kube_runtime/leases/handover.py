"""Handing an event to the member that owns its key.

An event may reach any member. A member that does not own the key passes it on, and acknowledges it only when the owner
has accepted it; otherwise the sender sends it again.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Generic, TypeVar

from kube_runtime.leases.membership import Member, Membership

E = TypeVar("E")


class NotHandedOver(Exception):
    """The member that owns the key did not accept the event; the sender has to send it again."""


class HandOver(Generic[E]):
    """Accepts events for keys of this member, and passes on those for keys of others.

    - `accept` handles an event here; it must not block
    - `deliver` sends one to another member, and raises if that did not accept it
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
        """Pass an event to the member that owns its key. Raises NotHandedOver.

        An event that arrives before this member has joined waits for that: not every sender sends it again.
        """
        if not self._membership.joined.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(self._timeout_seconds):
                    await self._membership.joined.wait()
        owner = self._membership.owner_of(key)
        if owner is None:
            raise NotHandedOver("no member owns the key")
        if owner.identity == self._membership.identity:
            self._accept(key, event)
            return
        try:
            async with asyncio.timeout(self._timeout_seconds):
                await self._deliver(owner, key, event)
        except Exception as error:
            raise NotHandedOver(f"{owner.identity} did not accept the event: {error.__class__.__name__}") from error
