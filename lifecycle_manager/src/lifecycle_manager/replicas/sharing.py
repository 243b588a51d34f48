"""Whose a Kyma is: this replica's where it is alone, else by Leases.

A replica that gets Kymas, because it is new or because another one has gone, looks at all of them from scratch: so it
does not matter what the other one had heard of them and not done yet.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

import structlog

from kube_runtime import Client
from kube_runtime.leases import LeaseTiming, Membership
from lifecycle_manager_api import names

log = structlog.get_logger("replicas")

GROUP = names.LIFECYCLE_MANAGER


class Sharing(Protocol):
    """What the rest of a replica asks."""

    def owns(self, name: str) -> bool:
        """Tell whether a Kyma, or anything else by its name, is this replica's to look after right now."""
        ...

    def check(self) -> None:
        """Raise LeaseLost where this replica must not write, whatever it was about to."""
        ...


class Alone:
    """The only replica: everything is its own."""

    def owns(self, _name: str) -> bool:
        """Say that it is."""
        return True

    def check(self) -> None:
        """Let every write pass."""


class Work(Protocol):
    """The work that is shared."""

    def kyma_names(self) -> Iterable[str]:
        """Name the Kymas that there are."""
        ...

    def begin(self, kyma_names: Iterable[str]) -> None:
        """Look at Kymas from scratch, and at what belongs to none."""
        ...

    async def finish(self, given_away: Callable[[str], bool]) -> None:
        """Return once nothing is under way any more for what a function names."""
        ...


class Shared:
    """One of several replicas. Until it runs it looks after nothing.

    - `name` tells it from the others, and with `succeeds` nobody else of that name is alive
    - `address` is where the others hand over events
    """

    def __init__(self, client: Client, *, name: str, succeeds: bool, address: str, timing: LeaseTiming) -> None:
        self.membership = Membership(
            client,
            namespace=names.KCP_NAMESPACE,
            group=GROUP,
            identity=name,
            address=address,
            succeeds=succeeds,
            on_change=self._look,
            finish=self._finish,
            timing=timing,
        )
        self._work: Work | None = None
        self._mine: frozenset[str] = frozenset()
        self._seen_as = ""

    def owns(self, name: str) -> bool:
        """Tell whether this replica, and no other, is to look after something right now."""
        return self.membership.owns(name)

    def check(self) -> None:
        """Raise LeaseLost where others may have taken over."""
        self.membership.check()

    async def run(self, work: Work) -> None:
        """Take part in some work until cancelled; then the others take over at once."""
        self._work = work
        await self.membership.run()

    def _look(self) -> None:
        """Find out which Kymas are this replica's by now, and begin with those that were not before."""
        if self._work is None:
            return
        if self._seen_as != self.membership.identity:  # it was held to be gone meanwhile, and has nothing any more
            self._seen_as, self._mine = self.membership.identity, frozenset()
        mine = frozenset(name for name in self._work.kyma_names() if self.membership.owns(name))
        gained, lost, self._mine = mine - self._mine, self._mine - mine, mine
        if gained or lost:
            log.info("other Kymas than before", replica=self._seen_as, gained=len(gained), lost=len(lost))
        self._work.begin(gained)

    async def _finish(self, given_away: Callable[[str], bool]) -> None:
        if self._work is not None:
            await self._work.finish(given_away)
