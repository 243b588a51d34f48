"""Which keys are this process's to reconcile: all of them where it is alone, else those that its leases give it.

Keys are shared by their owner, a name that a controller gives for each of its keys; all keys of one owner are with one
replica. A replica that gains owners reconciles all their keys from scratch, so it does not matter what another one had
been notified of and not done yet.
"""

import asyncio
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kube_runtime.leases.membership import Membership


class Work(Protocol):
    """The work that is shared. A Manager is one."""

    def owners(self) -> Collection[str]:
        """Return all owners that have keys."""
        ...

    def begin(self, gained: Collection[str], lost: Collection[str]) -> None:
        """Begin with the keys of gained owners from scratch, and forget those of lost ones."""
        ...

    async def finish(self, is_lost: Callable[[str], bool]) -> None:
        """Return once no reconcile is under way for the owners that a function selects."""
        ...


class Sharding(Protocol):
    """Says which replica has the keys of an owner."""

    @property
    def membership(self) -> "Membership | None":
        """By which the replicas share the work; None where this one is alone."""
        ...

    @property
    def has_begun(self) -> bool:
        """Tell whether this process has begun with the keys that are its own."""
        ...

    def owns(self, owner: str) -> bool:
        """Tell whether the keys of an owner are this process's, and nobody else's, right now."""
        ...

    def check(self) -> None:
        """Raise LeaseLost where this process must not write at all. The fence of a Manager's client."""
        ...

    async def run(self, work: Work) -> None:
        """Take part in the work until cancelled; then others may take over at once."""
        ...


class Alone:
    """The only replica: everything is its own."""

    membership = None
    has_begun = True

    def owns(self, owner: str) -> bool:
        """Tell that it is."""
        return True

    def check(self) -> None:
        """Let every write pass."""

    async def run(self, work: Work) -> None:
        """Begin with everything."""
        work.begin(frozenset(work.owners()), ())
        await asyncio.Event().wait()


ALONE: Sharding = Alone()
