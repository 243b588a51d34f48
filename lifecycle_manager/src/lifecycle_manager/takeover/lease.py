"""Keeps this version from working while the former one does: both would change the same objects, each in its own way.

The replicas of the former version elect a leader by a Lease. As long as that is renewed, nothing is started here, and
this version is not ready and says why: until then it is read, since a watch that is silent proves nothing. Where it is
renewed later, as after a rollback, a watch shows that, and the process ends.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import structlog

from kube_runtime import Change, Client, KubeError, Manager, NotFound, Resource
from lifecycle_manager_api import names

LEASE = "893110f7.kyma-project.io"
LEASES: Resource[dict[str, Any]] = Resource.dynamic("coordination.k8s.io", "v1", "Lease", "leases", namespaced=True)
INTERVAL_SECONDS = 2.0
log = structlog.get_logger("takeover")


class FormerVersionRuns(Exception):
    """The former version has begun to work again."""


def setup(manager: Manager, kcp: Client) -> None:
    """Wait at the start until the former version does not work, and end where it does later. To be called first."""
    lease = FormerLease(manager, kcp)
    leases = manager.informer(LEASES, namespace=names.KCP_NAMESPACE, field_selector=f"metadata.name={LEASE}")
    leases.on_change(lease.observe)
    manager.before_start(lease.wait)
    manager.runs(lease.run, name="former version")
    manager.check("former version", lambda: lease.objection or True)


@dataclass(eq=False)
class FormerLease:
    """The Lease of the former version, as last read. `objection`: why this version may not work; empty if it may."""

    manager: Manager
    kcp: Client
    objection: str = field(default="not checked yet", init=False)
    _renewed_at: str = field(default="", init=False)
    _renewed: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    async def wait(self) -> None:
        """Return once the former version does not work."""
        await self._check()
        while self.objection:
            await asyncio.sleep(INTERVAL_SECONDS)
            await self._check()

    async def run(self) -> None:
        """Follow the Lease until cancelled. Raises FormerVersionRuns where the former version begins to work again."""
        while True:
            await self._renewed.wait()
            self._renewed.clear()
            if self.manager.working and self.objection:
                raise FormerVersionRuns(self.objection)

    def observe(self, change: Change[dict[str, Any]]) -> None:
        """Evaluate a Lease that was renewed while this version works; a former version that works renews again."""
        if self.manager.working and change.new is not None:
            self.objection = self._evaluate(change.new)
            self._renewed.set()

    async def _check(self) -> None:
        """Read the Lease. While KCP can't be asked, what was read last counts."""
        try:
            lease = await self.kcp.get(LEASES, LEASE, names.KCP_NAMESPACE)
        except NotFound:
            objection = ""
        except (KubeError, TimeoutError) as error:
            log.warning("the Lease of the former version can't be read", error=str(error))
            return
        else:
            objection = self._evaluate(lease)
        if objection and objection != self.objection:
            log.warning("the Go Lifecycle Manager still holds its Lease", reason=objection)
        self.objection = objection

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
    """Return who holds a Lease, empty for nobody.

    It is held if it says so, or was renewed since it was read before: the clocks may differ.
    """
    spec, renewed_at = lease.get("spec") or {}, renewal_of(lease)
    holder, seconds = str(spec.get("holderIdentity") or ""), spec.get("leaseDurationSeconds") or 0
    if not holder or not renewed_at:
        return ""
    is_running = datetime.fromisoformat(renewed_at) + timedelta(seconds=seconds) > now
    return holder if is_running or renewed_before not in {"", renewed_at} else ""
