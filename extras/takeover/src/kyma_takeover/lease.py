"""Keeps this version from working while the former one does, and the former one while this one does.

The replicas of the former version elect a leader by a Lease. As long as that is renewed, nothing is started here, and
this version is not ready and says why: until then it is read, since a watch that is silent proves nothing. Then this
version holds the Lease, all its replicas under one name, so that a former version that is started again waits. A
replica that can't renew it writes nothing any more. Where the former version has it all the same, a watch shows that,
and the process ends.

Where there is no such Lease, the former version never worked, and none is created.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import structlog

from kube_runtime import Change, Client, Conflict, KubeError, Manager, NotFound, Resource, Sharding
from kube_runtime.leases.lease import LeaseLost, LeaseTiming, elapsed, wall_time
from kyma_takeover.sharding import ShardingOfReplicas
from lifecycle_manager_api import names

LEASE = "893110f7.kyma-project.io"
LEASES: Resource[dict[str, Any]] = Resource.dynamic("coordination.k8s.io", "v1", "Lease", "leases", namespaced=True)
HOLDER = "lifecycle-manager-in-python"
"""Who holds the Lease while a replica of this version works, whichever it is."""
TIMING = LeaseTiming(lease_seconds=60, act_seconds=40.0, renew_seconds=15.0)
"""Longer than a restart of this version: the former one, if it runs and waits, does not take over meanwhile."""
INTERVAL_SECONDS = 2.0
log = structlog.get_logger("takeover")


class FormerVersionRuns(Exception):
    """The former version has begun to work again."""


class WholeFleet(ShardingOfReplicas):
    """A sharding that writes only while the Lease of the former version is held."""

    def __init__(self, replicas: Sharding) -> None:
        super().__init__(replicas)
        self._lease: FormerLease | None = None

    def follow(self, lease: "FormerLease") -> None:
        """Write only while a Lease is held."""
        self._lease = lease
        lease.when_regained(self._begin_again)

    def owns(self, owner: str) -> bool:
        """Tell whether this replica has the keys of an owner, and may write."""
        return (self._lease is None or self._lease.is_held) and self.replicas.owns(owner)

    def check(self) -> None:
        """Raise LeaseLost where this replica, or this version, must not write."""
        super().check()
        if self._lease is not None and not self._lease.is_held:
            raise LeaseLost(f"Lease {names.KCP_NAMESPACE}/{LEASE} could not be renewed")

    def _begin_again(self) -> None:
        """Begin with everything that was left undone while the Lease was not held."""
        if self._work is not None:
            self._work.begin(frozenset(each for each in self._work.owners() if self.owns(each)), ())


def setup(manager: Manager, kcp: Client, timing: LeaseTiming = TIMING) -> None:
    """Wait at the start until the former version does not work, and keep it from working. To be called first."""
    lease = FormerLease(manager, kcp, timing)
    if isinstance(manager.sharding, WholeFleet):
        manager.sharding.follow(lease)
    leases = manager.informer(LEASES, namespace=names.KCP_NAMESPACE, field_selector=f"metadata.name={LEASE}")
    leases.on_change(lease.observe)
    manager.before_start(lease.wait)
    manager.runs(lease.run, name="former version")
    manager.runs(lease.keep, name="Lease of the former version")
    manager.check("former version", lambda: lease.objection or True)


@dataclass(eq=False)
class FormerLease:
    """The Lease of the former version, as last read. `objection`: why this version may not work; empty if it may."""

    manager: Manager
    kcp: Client
    timing: LeaseTiming = TIMING
    objection: str = field(default="not checked yet", init=False)
    _renewed_at: str = field(default="", init=False)
    _renewed: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _act_until: float | None = field(default=None, init=False)
    """Until when the Lease counts as held here; None where there is none."""
    _regained: list[Callable[[], None]] = field(default_factory=list, init=False)

    @property
    def is_held(self) -> bool:
        """Tell whether no other may hold the Lease."""
        return self._act_until is None or elapsed() < self._act_until

    def when_regained(self, regained: Callable[[], None]) -> None:
        """Call a function where the Lease is held again that could not be renewed for a while."""
        self._regained.append(regained)

    async def wait(self) -> None:
        """Return once the former version does not work, and this one holds its Lease."""
        await self._take()
        while self.objection:
            await asyncio.sleep(INTERVAL_SECONDS)
            await self._take()

    async def run(self) -> None:
        """Follow the Lease until cancelled. Raises FormerVersionRuns where the former version begins to work again."""
        while True:
            await self._renewed.wait()
            self._renewed.clear()
            if self.manager.working and self.objection:
                raise FormerVersionRuns(self.objection)

    async def keep(self) -> None:
        """Renew the Lease until cancelled, from when it is held."""
        pause = self.timing.renew_seconds
        while True:
            await asyncio.sleep(pause)
            if self._act_until is not None:
                pause = self.timing.renew_seconds if await self._take() else self.timing.retry_seconds
                self._renewed.set()

    def observe(self, change: Change[dict[str, Any]]) -> None:
        """Evaluate a Lease that was renewed while this version works; a former version that works renews again."""
        if self.manager.working and change.new is not None:
            self.objection = self._evaluate(change.new)
            self._renewed.set()

    async def _take(self) -> bool:
        """Hold the Lease if the former version does not. While KCP can't be asked, what was read last counts."""
        began = elapsed()
        try:
            async with asyncio.timeout(self.timing.act_seconds):
                lease = await self.kcp.get(LEASES, LEASE, names.KCP_NAMESPACE)
                objection = self._evaluate(lease)
                if not objection:
                    await self._hold(lease, began)
        except NotFound:
            objection = ""
            self._may_act_until(None)
        except Conflict:  # by another replica, or by the former version: the next turn sees whose it is
            return False
        except (KubeError, TimeoutError) as error:
            log.warning("the Lease of the former version can't be read or held", error=str(error) or "timed out")
            return False
        if objection and objection != self.objection:
            log.warning("the Go Lifecycle Manager still holds its Lease", reason=objection)
        self.objection = objection
        return not objection

    async def _hold(self, lease: dict[str, Any], began: float) -> None:
        """Hold the Lease as it was read, or renew it. Raises Conflict, KubeError."""
        spec = lease.get("spec") or {}
        now, is_held = wall_time(), spec.get("holderIdentity") == HOLDER
        taken = {} if is_held else {"acquireTime": now, "leaseTransitions": (spec.get("leaseTransitions") or 0) + 1}
        held = {"holderIdentity": HOLDER, "leaseDurationSeconds": self.timing.lease_seconds, "renewTime": now, **taken}
        version = {"resourceVersion": lease["metadata"]["resourceVersion"]}
        patch = {"metadata": version, "spec": held}
        await self.kcp.merge_patch(LEASES, LEASE, patch, names.KCP_NAMESPACE, field_manager=names.LIFECYCLE_MANAGER)
        self._may_act_until(began + self.timing.act_seconds)

    def _may_act_until(self, until: float | None) -> None:
        was_held, self._act_until = self.is_held, until
        if not was_held:
            log.warning("the Lease of the former version is held again")
            for regained in self._regained:
                regained()

    def _evaluate(self, lease: dict[str, Any]) -> str:
        """Return why this version may not work."""
        before, self._renewed_at = self._renewed_at, renewal_of(lease)
        holder = holder_of(lease, self.manager.clock.now(), renewed_before=before)
        return (
            f"Lease {names.KCP_NAMESPACE}/{LEASE} is held by {holder}: stop the former version first" if holder else ""
        )


def renewal_of(lease: Mapping[str, Any]) -> str:
    """Return when a Lease was renewed, as it says so; empty for never."""
    return str((lease.get("spec") or {}).get("renewTime") or "")


def holder_of(lease: Mapping[str, Any], now: datetime, *, renewed_before: str = "") -> str:
    """Return which process of the former version holds a Lease, empty for none.

    It is held if it says so, or was renewed since it was read before: the clocks may differ.
    """
    spec, renewed_at = lease.get("spec") or {}, renewal_of(lease)
    holder, seconds = str(spec.get("holderIdentity") or ""), spec.get("leaseDurationSeconds") or 0
    if holder in {"", HOLDER} or not renewed_at:
        return ""
    is_running = datetime.fromisoformat(renewed_at) > now - timedelta(seconds=seconds)
    return holder if is_running or renewed_before not in {"", renewed_at} else ""
