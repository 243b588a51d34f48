"""The sharding of a Manager among all members of a group."""

import logging
from collections.abc import Callable

from kube_runtime.client.client import Client
from kube_runtime.leases.lease import LeaseTiming
from kube_runtime.leases.membership import DEFAULT_TIMING, Membership
from kube_runtime.sharding import Work

log = logging.getLogger(__name__)


class LeaseSharding:
    """One of several replicas that share owners by their Leases. Until it runs it owns nothing.

    - `name` of this replica; with `succeeds`, the process that had it before has ended for certain
    - `address` is where the others can reach it
    - `client` only renews Leases, so that no other request delays that
    """

    def __init__(
        self,
        client: Client,
        *,
        namespace: str,
        group: str,
        name: str,
        succeeds: bool = False,
        address: str = "",
        timing: LeaseTiming = DEFAULT_TIMING,
    ) -> None:
        self.membership = Membership(
            client,
            namespace=namespace,
            group=group,
            identity=name,
            address=address,
            succeeds=succeeds,
            on_change=self._compare,
            finish=self._finish,
            timing=timing,
        )
        self.has_begun = False
        """Whether this replica has begun with its share: from then on it can be sent what concerns any key."""
        self._work: Work | None = None
        self._mine: frozenset[str] = frozenset()
        self._identity = ""

    def owns(self, owner: str) -> bool:
        """Tell whether this replica, and no other, has the keys of an owner right now."""
        return self.membership.owns(owner)

    def check(self) -> None:
        """Raise LeaseLost where others may have taken over."""
        self.membership.check()

    async def run(self, work: Work) -> None:
        """Take part until cancelled; then the others take over at once."""
        self._work = work
        await self.membership.run()

    def _compare(self) -> None:
        """Begin with the owners that are this replica's by now and were not before.

        Under another identity those are all: the membership had lapsed, and others may have had them.
        """
        if self._work is None or not (self._mine or self.membership.has_share):
            return  # to find that out for each owner of a large fleet takes long
        identity, before = self.membership.identity, self._mine
        mine = frozenset(owner for owner in self._work.owners() if self.membership.owns(owner))
        gained, lost = (mine - before if identity == self._identity else mine), before - mine
        self._mine, self._identity = mine, identity
        if gained or lost:
            log.info("%s: %d owners gained, %d lost", identity, len(gained), len(lost))
        self._work.begin(gained, lost)
        self.has_begun = self.has_begun or self.membership.has_share

    async def _finish(self, is_lost: Callable[[str], bool]) -> None:
        if self._work is not None:
            await self._work.finish(is_lost)
