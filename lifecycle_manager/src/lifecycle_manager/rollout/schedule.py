"""When the modules of the fleet may change: how releases are spread, and the maintenance policy as its file has it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import structlog
from prometheus_client import Gauge

from kube_runtime import Clock, Informer
from lifecycle_manager.contract.options import Duration, option
from lifecycle_manager.contract.resources import DatedReleaseMeta
from lifecycle_manager.module_catalog.offer import claim_of
from lifecycle_manager.rollout.maintenance import MaintenancePolicy, PolicyUnreadable, find_policy, read_policy
from lifecycle_manager.rollout.releases import Rollouts, rollouts_in_force
from lifecycle_manager_api import ModuleRollout

log = structlog.get_logger("rollout")


@dataclass(frozen=True, slots=True)
class RolloutSettings:
    """When versions of modules change.

    - `max_delay`: over how long a new version in a channel is spread over the fleet
    - `policy_file`: the maintenance windows; without it, no upgrade waits for one
    - `min_window`: how long a window has to be open still for an upgrade to begin
    """

    max_delay: Duration = option(
        timedelta(minutes=5),
        "module-upgrade-rollout-max-delay",
        "time over which a new version in a channel is rolled out to the fleet",
    )
    policy_file: Path | None = option(
        None,
        "maintenance-policy",
        "file with the maintenance policy; default: /etc/maintenance-policy/policy.json, if it exists. Without a "
        "policy no upgrade waits for a maintenance window",
    )
    min_window: Duration = option(
        timedelta(minutes=20),
        "min-maintenance-window-size",
        "remaining time of a maintenance window that an upgrade needs to begin",
    )


@dataclass(frozen=True, slots=True)
class Timing:
    """When changes may happen.

    - `released_at`: since when a module's channels are as they are, where that is known
    - `max_delay`: over how long a new version is spread over the fleet
    - `rollouts`: the rollouts of modules that have a strategy, instead of that spread
    - `policy`: the maintenance windows; without it, no upgrade waits for one
    - `policy_error`: why they can't be read; then no upgrade that requires downtime happens
    """

    now: datetime
    released_at: Mapping[str, datetime] = field(default_factory=dict)
    max_delay: timedelta = timedelta(0)
    policy: MaintenancePolicy | None = None
    policy_error: str = ""
    min_window: timedelta = timedelta(minutes=20)
    rollouts: Rollouts = field(default_factory=dict)


@dataclass(eq=False)
class Schedule:
    """Returns the timing of this moment. The policy's file is read again when it was changed."""

    releases: Informer[DatedReleaseMeta]
    rollouts: Informer[ModuleRollout]
    clock: Clock
    settings: RolloutSettings
    readable: Gauge
    _file: Path | None = field(default=None, init=False)
    _policy: MaintenancePolicy | None = field(default=None, init=False)
    _policy_error: str = field(default="", init=False)
    _modified: int | None = field(default=None, init=False)
    _released: tuple[int, dict[str, datetime]] = field(default=(-1, {}), init=False)
    _in_force: tuple[tuple[int, int], Rollouts] = field(default=((-1, -1), {}), init=False)

    def __post_init__(self) -> None:
        self._file = find_policy(self.settings.policy_file)
        self.readable.set(self._file is None)  # without a file there is nothing to fail on

    def timing(self) -> Timing:
        """Return what changes may happen now."""
        self._read_policy()
        return Timing(
            now=self.clock.now(),
            released_at=self._released_at(),
            max_delay=self.settings.max_delay,
            policy=self._policy,
            policy_error=self._policy_error,
            min_window=self.settings.min_window,
            rollouts=self.in_force(),
        )

    def in_force(self) -> Rollouts:
        """Return the rollouts that decide now."""
        state = self.releases.cache.changes, self.rollouts.cache.changes
        if self._in_force[0] != state:
            self._in_force = (state, rollouts_in_force(self.releases.cache.list(), self.rollouts.cache.list()))
        return self._in_force[1]

    def _released_at(self) -> dict[str, datetime]:
        state = self.releases.cache.changes
        if self._released[0] != state:
            self._released = (state, dict(release_times(self.releases.cache.list())))
        return self._released[1]

    def _read_policy(self) -> None:
        file = self._file
        if file is None:
            return
        try:
            modified = file.stat().st_mtime_ns
        except OSError:
            modified = -1
        if modified == self._modified:
            return
        self._modified = modified
        try:
            self._policy, self._policy_error = read_policy(file), ""
        except PolicyUnreadable as error:
            self._policy, self._policy_error = None, str(error)
            log.error("can't read the maintenance policy; upgrades with downtime wait", error=str(error))  # noqa: TRY400
        self.readable.set(not self._policy_error)


def release_times(releases: Iterable[DatedReleaseMeta]) -> Iterable[tuple[str, datetime]]:
    """Return since when each module's channels are as they are; of several releases of one module one counts."""
    for release in sorted(releases, key=claim_of, reverse=True):  # the one that counts comes last, and stays
        written_at = release.metadata.written_at
        if written_at is not None:
            yield release.spec.module_name, written_at
