"""Choosing one process among several, by a Lease.

The one that leads renews its lease; when it could not for a while it stops by itself, before anybody may take over. It
stops in two ways: its work is cancelled, and `check`, given to a client as a fence, refuses every further write. The
second holds even for a process that was frozen in the middle of a request and thawed much later.
"""

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable

import msgspec

from kube_runtime.client.client import Client
from kube_runtime.exceptions import AlreadyExists, Conflict, KubeError, NotFound
from kube_runtime.leases.lease import (
    LEASES,
    Lease,
    LeaseLost,
    LeaseMetadata,
    LeaseSpec,
    LeaseTiming,
    Observation,
    elapsed,
    wall_time,
)

__all__ = ["LeaderElection"]

log = logging.getLogger(__name__)

RELEASE_SECONDS = 2.0
DEFAULT_TIMING = LeaseTiming()
_NEVER = float("-inf")


class LeaderElection:
    """Takes part in the election that a Lease stands for. `run` it with what to do while leading.

    `identity` names this process to people; what tells it from an earlier one of the same name is added.
    """

    def __init__(
        self,
        client: Client,
        *,
        namespace: str,
        name: str,
        identity: str,
        timing: LeaseTiming = DEFAULT_TIMING,
        clock: Callable[[], float] = elapsed,
    ) -> None:
        self.identity = f"{identity}_{uuid.uuid4().hex[:12]}"
        self.epoch = 0
        self._client = client
        self._namespace = namespace
        self._name = name
        self._timing = timing
        self._clock = clock
        self._observed: Observation | None = None
        self._act_until = _NEVER

    @property
    def is_leader(self) -> bool:
        """Tell whether this process may act as the leader right now."""
        return self._clock() < self._act_until

    def check(self) -> None:
        """Raise LeaseLost unless this process leads right now. To be used as the fence of a client."""
        if not self.is_leader:
            raise LeaseLost(f"{self.identity} does not hold the lease {self._namespace}/{self._name} (any more)")

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Become the leader, again and again, and do what a leader does, until that ends by itself.

        Losing the lease cancels `lead`, which is called again after the next win. What it raises is raised; the
        lease is released at the end, so that somebody else can take over at once.
        """
        while True:
            await self._acquire()
            try:
                if await self._lead(lead):
                    return
            finally:
                await self._release()

    async def _lead(self, lead: Callable[[], Awaitable[None]]) -> bool:
        """Lead while the lease is held. Returns whether the work has ended by itself."""
        log.info("%s leads %s/%s", self.identity, self._namespace, self._name)
        leading = asyncio.ensure_future(lead())
        holding = asyncio.ensure_future(self._hold())
        try:
            await asyncio.wait({leading, holding}, return_when=asyncio.FIRST_COMPLETED)
            ended = leading.done()
        finally:
            leading.cancel()
            holding.cancel()
            await asyncio.wait({leading, holding})
        if ended:
            leading.result()
        elif not leading.cancelled() and (error := leading.exception()) is not None:
            log.warning("the work of a leader that lost its lease ended badly", exc_info=error)
        return ended

    async def _acquire(self) -> None:
        while not self.is_leader:
            try:
                async with asyncio.timeout(self._timing.act_seconds):
                    await self._try_to_acquire()
            except (KubeError, TimeoutError) as error:
                log.warning("the lease %s/%s can't be acquired: %s", self._namespace, self._name, error)
            if not self.is_leader:
                await asyncio.sleep(self._until_next_try())

    async def _try_to_acquire(self) -> None:
        began = self._clock()
        lease = await self._read()
        if lease is None:
            await self._take(began, None)
        elif self._clock() >= self._observe(lease).free_at():
            await self._take(began, lease)

    async def _read(self) -> Lease | None:
        try:
            return await self._client.get(LEASES, self._name, self._namespace)
        except NotFound:
            return None

    async def _take(self, began: float, lease: Lease | None) -> None:
        """Write this process into the Lease, if nobody else was faster."""
        before = lease or Lease(metadata=LeaseMetadata(name=self._name, namespace=self._namespace))
        spec = LeaseSpec(
            holder_identity=self.identity,
            lease_duration_seconds=self._timing.lease_seconds,
            acquire_time=wall_time(),
            renew_time=wall_time(),
            lease_transitions=before.spec.lease_transitions + (lease is not None),
        )
        taken = msgspec.structs.replace(before, spec=spec)
        try:
            if lease is None:
                written = await self._client.create(LEASES, taken, self._namespace, field_manager=self.identity)
            else:
                written = await self._replace(taken)
        except (AlreadyExists, Conflict, NotFound):
            return  # somebody else was faster
        self._won(began, written)

    async def _hold(self) -> None:
        """Renew the lease, and return as soon as it may not be acted upon any more."""
        while True:
            left = self._act_until - self._clock()
            if left <= 0:
                log.error("%s could not renew its lease and stops", self.identity)
                return
            await asyncio.sleep(min(self._timing.renew_seconds, left))
            try:
                async with asyncio.timeout(max(0.0, self._act_until - self._clock())):
                    if not await self._renew():
                        self._act_until = _NEVER
                        log.error("%s: somebody else holds the lease", self.identity)
                        return
            except (KubeError, TimeoutError) as error:
                log.warning("the lease could not be renewed: %s", str(error) or "the time was up")

    async def _renew(self) -> bool:
        """Renew once. Returns whether the lease is still this process's; raises KubeError where that is not known."""
        began = self._clock()
        assert self._observed is not None  # noqa: S101 - it was acquired
        held = self._observed.lease
        spec = msgspec.structs.replace(held.spec, renew_time=wall_time())
        try:
            written = await self._replace(msgspec.structs.replace(held, spec=spec))
        except Conflict:
            lease = await self._read()
            if lease is None or lease.spec.holder_identity != self.identity:
                return False
            self._observe(lease)  # an earlier renewal was done without our hearing of it
            return True
        except NotFound:
            return False
        self._won(began, written)
        return True

    async def _release(self) -> None:
        """Let the lease go, if it is still held; whatever goes wrong, it ends by itself."""
        if not self.is_leader or self._observed is None:
            self._act_until = _NEVER
            return
        self._act_until = _NEVER
        held = self._observed.lease
        spec = msgspec.structs.replace(held.spec, holder_identity="", lease_duration_seconds=1)
        try:
            async with asyncio.timeout(RELEASE_SECONDS):
                await self._replace(msgspec.structs.replace(held, spec=spec))
        except (KubeError, TimeoutError) as error:
            log.warning("the lease could not be released, and ends by itself: %s", str(error) or "the time was up")

    async def _replace(self, lease: Lease) -> Lease:
        return await self._client.replace(LEASES, self._name, lease, self._namespace, field_manager=self.identity)

    def _won(self, began: float, written: Lease) -> None:
        self._observe(written)
        self.epoch = written.spec.lease_transitions
        self._act_until = began + self._timing.act_seconds

    def _observe(self, lease: Lease) -> Observation:
        now = self._clock()
        if self._observed is None:
            self._observed = Observation(lease, now)
        self._observed.update(lease, now)
        return self._observed

    def _until_next_try(self) -> float:
        if self._observed is None:
            return self._timing.renew_seconds
        return min(self._timing.renew_seconds, max(0.05, self._observed.free_at() - self._clock()))
