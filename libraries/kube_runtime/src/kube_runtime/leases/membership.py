"""Sharing keys among several processes, each of which knows the other members.

Every member renews a Lease of its own; keys go to members by rendezvous hashing. Two members may see different members
for a moment, and still no key must have two owners:

- each member writes the view that it acts on into its Lease, before it acts on it, and renews the Lease with that view;
  while a write has an unknown outcome, it acts only on keys that all views give it which the Lease may show;
- after that it reads all Leases, not from a cache: of two members that claim the same key by different views, at least
  one sees the other's claim, and whoever sees one holds back until the views agree;
- before it publishes a view by which it loses keys, it finishes what it is doing with them;
- a member counts as gone only when its Lease did not change for its whole length, by reading it and not by the
  silence of a watch; a member that could not renew has stopped by itself before that.

Every writer of these Leases is trusted, up to their length: a member believes what the others claim. So they need a
namespace in which nobody else may write them. All members have the same timing: a longer Lease counts as one's own.
"""

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from kube_crds import ObjectMetadata
from kube_runtime.client.client import Client
from kube_runtime.exceptions import Conflict, KubeError, NotFound
from kube_runtime.informer import Change, Informer
from kube_runtime.leases.lease import (
    LEASES,
    Lease,
    LeaseLost,
    LeaseSpec,
    LeaseTiming,
    Observation,
    elapsed,
    wall_time,
)
from kube_runtime.leases.rendezvous import rendezvous

log = logging.getLogger(__name__)

GROUP_LABEL = "kube-runtime/group"
VIEW = "kube-runtime/view"
ADDRESS = "kube-runtime/address"
JOIN_SECONDS = 3600.0
LEAVE_SECONDS = 2.0
DEFAULT_TIMING = LeaseTiming(lease_seconds=10, act_seconds=7.0, renew_seconds=2.5)
"""A holder that fails to renew tries three times more before it stops acting: after 2.5, 3.75, 5 and 6.25 s."""
_NEVER = float("-inf")


@dataclass(frozen=True, slots=True)
class Member:
    """One of the processes that share the keys, and its address."""

    identity: str
    address: str = ""


async def _nothing_under_way(_is_lost: Callable[[str], bool]) -> None:
    return


class LeaseTaken(Exception):
    """The Lease of this process is gone, or somebody else holds it."""


class Membership:
    """A member of a group of processes that share keys. `run` it; check `owns` before acting on a key.

    - `identity` names this process to people; each time it joins, something is added that tells it from before
    - `address` is the address at which others reach it
    - `on_change` is called when the keys that this process owns may be others than before
    - `finish` is awaited before keys are given away: it gets a function that selects them, and returns once none is
      reconciled any more
    - `succeeds`: the process that had this identity before has ended for certain, as a container has when the next one
      of its Pod starts. Its keys are free at once, and not only when its Lease expires
    """

    def __init__(
        self,
        client: Client,
        *,
        namespace: str,
        group: str,
        identity: str,
        address: str = "",
        succeeds: bool = False,
        on_change: Callable[[], None] = lambda: None,
        finish: Callable[[Callable[[str], bool]], Awaitable[None]] = _nothing_under_way,
        timing: LeaseTiming = DEFAULT_TIMING,
        clock: Callable[[], float] = elapsed,
    ) -> None:
        self.identity = self._name = identity
        self._client = client
        self._namespace = namespace
        self._group = group
        self._address = address
        self._succeeds = succeeds
        self._on_change = on_change
        self._finish = finish
        self._timing = timing
        self._clock = clock
        self._selector = f"{GROUP_LABEL}={group}"
        self._informer = Informer(client, LEASES, namespace=namespace, label_selector=self._selector)
        self._informer.on_change(self._lease_changed)
        self._others: dict[str, Observation] = {}
        self._own: Lease | None = None
        self._act_until = _NEVER
        self._published: tuple[str, ...] = ()
        self._shown: tuple[tuple[str, ...], ...] = ()
        self._wanted: tuple[str, ...] = ()
        self._used: set[str] = set()
        self.joined = asyncio.Event()
        """Set once this process has joined, and so knows for the first time which member owns which key."""
        self._changed = asyncio.Event()
        self._writing = asyncio.Lock()

    @property
    def members(self) -> tuple[Member, ...]:
        """Return all members that this process knows, itself included once it has joined."""
        others = (Member(_holder(seen.lease), _address(seen.lease)) for seen in self._others.values())
        own = (Member(self.identity, self._address),) if self._own is not None else ()
        return tuple(sorted((*own, *others), key=lambda member: member.identity))

    @property
    def active(self) -> bool:
        """Tell whether this process may act at all right now."""
        return self._clock() < self._act_until

    def check(self) -> None:
        """Raise LeaseLost unless this process is an active member. To be used as the fence of a client."""
        if not self.active:
            raise LeaseLost(f"{self.identity} could not renew its membership of {self._group}")

    @property
    def has_share(self) -> bool:
        """Tell whether this process has published which keys it takes."""
        return bool(self._published)

    def owns(self, key: str) -> bool:
        """Tell whether this process, and no other, may act on a key right now."""
        if not self.active or not self._claims(key):
            return False
        others = tuple(self._others.values())  # copied, as the thread that serves the metrics asks too
        return not any(self._claimed_by_other(key, seen.lease) for seen in others)

    def owner_of(self, key: str) -> Member | None:
        """Return the member that owns a key or is about to, to hand an event over to it."""
        owner = rendezvous(key, self._wanted)
        if owner == self.identity and self._own is not None:
            return Member(owner, self._address)
        return next((member for member in self.members if member.identity == owner), None)

    async def run(self) -> None:
        """Take part until cancelled, then leave, so that others can take over at once."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._informer.run())
                await self._informer.wait_synced(JOIN_SECONDS)
                tasks.create_task(self._keep_renewing())
                tasks.create_task(self._keep_agreeing())
        finally:
            await self._leave()

    async def _keep_renewing(self) -> None:
        while True:
            pause = self._timing.renew_seconds
            try:
                async with asyncio.timeout(self._timing.act_seconds), self._writing:
                    await (self._join() if self._own is None else self._write(self._shown[-1]))
            except (KubeError, TimeoutError) as error:
                log.warning("%s could not renew: %s", self.identity, str(error) or "timed out")
                pause = self._timing.retry_seconds
            await asyncio.sleep(pause)

    async def _keep_agreeing(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._timing.retry_seconds):
                    await self._changed.wait()
            except TimeoutError:
                pass  # a member that died reports no change; this looks at what was observed, without a request
            self._changed.clear()
            try:
                await self._drop_who_is_gone()
                await self._agree()
            except (KubeError, TimeoutError) as error:  # the next round begins where this one did
                log.warning("%s could not agree with the others: %s", self.identity, str(error) or "timed out")

    async def _agree(self) -> None:
        """Give away the keys lost by the new view, publish it, and read what others claim by now."""
        self._wanted = tuple(sorted({self.identity, *self._others}))
        if self._own is not None:
            self.joined.set()
        wanted = self._wanted
        if self._own is None or (wanted == self._published and self._shown == (wanted,)):
            return
        self._on_change()
        await self._finish(lambda key: not self._claims(key))
        async with asyncio.timeout(self._timing.act_seconds), self._writing:
            if self._own is None or self.identity not in wanted or not await self._write(wanted):
                return
        await self._read_all()
        if self._shown != (wanted,):
            return  # meanwhile the membership has lapsed
        self._published = wanted
        log.info("%s shares the keys of %s with %d other members", self.identity, self._group, len(wanted) - 1)
        self._on_change()

    async def _join(self) -> None:
        """Become known to the others, claiming nothing yet."""
        if self.identity == self._name or self.identity in self._used:
            self.identity = f"{self._name}-{uuid.uuid4().hex[:8]}"
        if self._succeeds or self._used:
            await self._remove_predecessors()
        self._used.add(self.identity)
        began = self._clock()
        self._own = await self._client.create(LEASES, self._lease(()), self._namespace, field_manager=self.identity)
        self._shown = ((),)
        self._act_until = began + self._timing.act_seconds
        self._changed.set()

    async def _remove_predecessors(self) -> None:
        """Remove the Leases of processes before this one, and those of this one that a lost answer left behind."""
        await self._read_all()
        for identity, seen in list(self._others.items()):
            if identity in self._used or (self._succeeds and identity.rpartition("-")[0] == self._name):
                await self._remove_left_over(identity, seen.lease)
        self._used.clear()

    async def _write(self, view: tuple[str, ...]) -> bool:
        """Renew the own Lease with a view. Returns False if the membership has lapsed, and begins again then."""
        self._shown = (*(each for each in self._shown if each != view), view)
        try:
            began = await self._replace(view)
        except (NotFound, LeaseTaken):
            log.warning("%s: others removed its Lease, or hold it", self.identity)
            await self._leave()
            return False
        if self._clock() >= self._act_until:
            log.warning("%s expired: others may have taken over", self.identity)
            await self._leave()
            return False
        self._shown = (view,)
        self._act_until = began + self._timing.act_seconds
        return True

    async def _replace(self, view: tuple[str, ...]) -> float:
        """Replace the own Lease, and return when that began. Raises NotFound where it is gone, LeaseTaken.

        After a Conflict it is still its own where a write before was done, and its answer lost.
        """
        for is_last in (False, True):
            began = self._clock()
            try:
                self._own = await self._client.replace(
                    LEASES, self._lease_name, self._lease(view), self._namespace, field_manager=self.identity
                )
            except Conflict:
                if is_last:
                    raise
                self._own = await self._read_own()
            else:
                break
        return began

    async def _read_own(self) -> Lease:
        """Read the own Lease, by a list as members may do. Raises LeaseTaken."""
        listed = await self._client.list(LEASES, self._namespace, label_selector=self._selector)
        own = next((each for each in listed.items if _holder(each) == self.identity), None)
        if own is None:
            raise LeaseTaken(f"no Lease of {self._group} is held by {self.identity}")
        return own

    async def _leave(self) -> None:
        """Claim nothing any more and delete the own Lease; where that fails, it expires."""
        left, self._own, self._published, self._shown, self._act_until = self._own, None, (), (), _NEVER
        if left is None:
            return
        try:
            async with asyncio.timeout(LEAVE_SECONDS):
                await self._client.delete(LEASES, left.metadata.name, self._namespace)
        except NotFound:
            return
        except (KubeError, TimeoutError) as error:
            log.warning(
                "Lease %s could not be deleted and will expire: %s", self._lease_name, str(error) or "timed out"
            )

    def _lease(self, view: tuple[str, ...]) -> Lease:
        metadata = ObjectMetadata(
            name=self._lease_name,
            namespace=self._namespace,
            resource_version=self._own.metadata.resource_version if self._own else "",
            labels={GROUP_LABEL: self._group},
            annotations={VIEW: " ".join(view), ADDRESS: self._address},
        )
        spec = LeaseSpec(
            holder_identity=self.identity, lease_duration_seconds=self._timing.lease_seconds, renew_time=wall_time()
        )
        return Lease(metadata=metadata, spec=spec)

    async def _read_all(self) -> None:
        """Read every Lease from the API server itself.

        What was seen before the list was asked for, and is newer, is lost: etcd was restored from a backup. The Lease
        as it is there counts for its full time again.
        """
        before = {identity: seen.lease for identity, seen in self._others.items()}
        listed = await self._client.list(LEASES, self._namespace, label_selector=self._selector)
        there = {_holder(lease): lease for lease in listed.items}
        for identity, lease in there.items():
            known = before.get(identity)
            if known is not None and int(known.metadata.resource_version) > int(listed.resource_version):
                self._others.pop(identity, None)
            self._observe(lease, as_of=listed.resource_version)
        for identity, seen in list(self._others.items()):
            if identity not in there and int(seen.lease.metadata.resource_version) <= int(listed.resource_version):
                del self._others[identity]  # not one that was created since
        self._on_change()

    async def _drop_who_is_gone(self) -> None:
        """Remove members whose Lease expired, as read from the API server and not from the cache."""
        most = self._timing.lease_seconds
        if not any(self._clock() >= seen.free_at(most) for seen in self._others.values()):
            return
        await self._read_all()
        now = self._clock()
        for identity, seen in list(self._others.items()):
            if now >= seen.free_at(most):
                log.warning("%s: the Lease of member %s of %s expired", self.identity, identity, self._group)
                await self._remove_left_over(identity, seen.lease)

    async def _remove_left_over(self, identity: str, lease: Lease) -> None:
        """Remove a member with its Lease. Where that fails it stays a member, until the next round."""
        try:
            await self._client.delete(
                LEASES,
                lease.metadata.name,
                self._namespace,
                uid=lease.metadata.uid,
                resource_version=lease.metadata.resource_version,
            )
        except Conflict:
            return  # it has come back to life
        except NotFound:
            pass  # it was removed by another member
        self._others.pop(identity, None)

    def _lease_changed(self, change: Change[Lease]) -> None:
        """Observe a Lease; a renewal that changes nothing is not reported."""
        if change.new is not None:
            self._observe(change.new, as_of=change.new.metadata.resource_version)
        elif change.old is not None:
            self._others.pop(_holder(change.old), None)
        if change.old is None or change.new is None or _view(change.old) != _view(change.new):
            self._changed.set()
            self._on_change()

    def _observe(self, lease: Lease, *, as_of: str) -> None:
        holder = _holder(lease)
        if not holder or holder == self.identity:
            return
        now = self._clock()
        self._others.setdefault(holder, Observation(lease, now)).update(lease, now, as_of=as_of)

    def _claims(self, key: str) -> bool:
        """Tell whether each view gives this process a key: published, wanted, and those that its Lease may show."""
        wanted, others = self._wanted, (self._published, *self._shown)
        if rendezvous(key, wanted) != self.identity:
            return False
        return all(view == wanted or rendezvous(key, view) == self.identity for view in others)

    def _claimed_by_other(self, key: str, lease: Lease) -> bool:
        view = _view(lease)
        return view != self._published and rendezvous(key, view) == _holder(lease)

    @property
    def _lease_name(self) -> str:
        return f"{self._group}-{self.identity}"


def _holder(lease: Lease) -> str:
    return lease.spec.holder_identity


def _view(lease: Lease) -> tuple[str, ...]:
    return tuple(lease.metadata.annotations.get(VIEW, "").split())


def _address(lease: Lease) -> str:
    return lease.metadata.annotations.get(ADDRESS, "")
