"""When the modules of the fleet may change: how releases are spread, and the maintenance policy as its file has it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import structlog
from prometheus_client import Gauge

from kube_runtime import Informer
from lifecycle_manager.kyma.resolution import Timing
from lifecycle_manager.module_catalog.offer import claim_of
from lifecycle_manager.resources import DatedReleaseMeta
from lifecycle_manager.rollout.maintenance import MaintenancePolicy, PolicyUnreadable, read_policy

log = structlog.get_logger("kyma")


@dataclass(eq=False)
class Schedule:
    """Gives the timing of this moment. The policy's file is read again when it was changed."""

    releases: Informer[DatedReleaseMeta]
    clock: Callable[[], datetime]
    rollout: timedelta
    policy_file: Path | None
    least_window: timedelta
    readable: Gauge
    _policy: MaintenancePolicy | None = field(default=None, init=False)
    _unreadable: str = field(default="", init=False)
    _modified: int | None = field(default=None, init=False)
    _released: tuple[int, dict[str, datetime]] = field(default=(-1, {}), init=False)

    def __post_init__(self) -> None:
        self.readable.set(self.policy_file is None)  # where there is none, none is unreadable

    def timing(self) -> Timing:
        """Return what changes may happen now."""
        self._follow_policy()
        return Timing(
            now=self.clock(),
            released_at=self._released_at(),
            rollout=self.rollout,
            policy=self._policy,
            policy_unreadable=self._unreadable,
            least_window=self.least_window,
        )

    def _released_at(self) -> dict[str, datetime]:
        state = self.releases.cache.changes
        if self._released[0] != state:
            self._released = (state, dict(_times(self.releases.cache.list())))
        return self._released[1]

    def _follow_policy(self) -> None:
        if self.policy_file is None:
            return
        try:
            modified = self.policy_file.stat().st_mtime_ns
        except OSError:
            modified = -1
        if modified == self._modified:
            return
        self._modified = modified
        try:
            self._policy, self._unreadable = read_policy(self.policy_file), ""
        except PolicyUnreadable as error:
            self._policy, self._unreadable = None, str(error)
            log.error("maintenance policy is not readable; upgrades with a downtime wait", error=str(error))  # noqa: TRY400
        self.readable.set(not self._unreadable)


def _times(releases: Iterable[DatedReleaseMeta]) -> Iterable[tuple[str, datetime]]:
    for release in sorted(releases, key=claim_of, reverse=True):  # the one that counts comes last, and stays
        written_at = release.metadata.written_at
        if written_at is not None:
            yield release.spec.module_name, written_at
