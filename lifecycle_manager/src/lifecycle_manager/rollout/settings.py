"""The options by which versions change."""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated

from lifecycle_manager.contract.options import Duration, matching, option

ChangedClusters = Annotated[str, matching(r"[0-9]{1,6}|(100|[0-9]{1,2})%")]


@dataclass(frozen=True, slots=True)
class RolloutSettings:
    """When versions of modules change.

    - `max_delay`: over how long a new version in a channel is spread over the fleet
    - `policy_file`: the maintenance windows; without it, no upgrade waits for one
    - `min_window`: how long a window has to be open still for an upgrade to begin
    - `max_changed`: in how many clusters one change of KCP may take effect without waves
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
    max_changed: ChangedClusters = option(
        "20%",
        "max-changed-clusters",
        "number or share of the clusters in which one change of a ModuleReleaseMeta or ModuleTemplate takes effect "
        "without waves where no RolloutStrategy is named; a share is at least 10 clusters, and 100% means no limit",
    )
