"""Kymas: how often they are reconciled, how long a state may last, when versions change; and their catalogs."""

from datetime import timedelta
from typing import Annotated

from pydantic import Field

from lifecycle_manager.options.clusters import BrakeSettings
from lifecycle_manager.options.model import DomainSettings
from lifecycle_manager.options.shared import Concurrency, DeletionInterval, Interval, PullSecret, PurgeSettings
from lifecycle_manager.options.types import Duration, OptionalPath

ChangedClusters = Annotated[str, Field(pattern=r"^([0-9]{1,6}|(100|[0-9]{1,2})%)$")]


class RolloutSettings(DomainSettings):
    """When versions of modules change.

    - `max_delay`: over how long a new version in a channel is spread over the fleet
    - `policy_file`: the maintenance windows; without it, no upgrade waits for one
    - `min_window`: how long a window has to be open still for an upgrade to begin
    - `max_changed`: in how many clusters one change of KCP may take effect without waves
    """

    max_delay: Duration = Field(
        default=timedelta(minutes=5),
        validation_alias="module-upgrade-rollout-max-delay",
        description="time over which a new version in a channel is rolled out to the fleet",
    )
    policy_file: OptionalPath = Field(
        default=None,
        validation_alias="maintenance-policy",
        description="file with the maintenance policy; default: /etc/maintenance-policy/policy.json, if it exists. "
        "Without a policy no upgrade waits for a maintenance window",
    )
    min_window: Duration = Field(
        default=timedelta(minutes=20),
        validation_alias="min-maintenance-window-size",
        description="remaining time of a maintenance window that an upgrade needs to begin",
    )
    max_changed: ChangedClusters = Field(
        default="20%",
        validation_alias="max-changed-clusters",
        description="number or share of the clusters in which one change of a ModuleReleaseMeta or ModuleTemplate "
        "takes effect without waves where no RolloutStrategy is named; a share is at least 10 clusters, and 100% "
        "means no limit",
    )


class Timeouts(DomainSettings):
    """How long a state may last before it is reported or acted on.

    - `unreachable`: an SKR that does not answer makes its Kyma an Error
    - `deletion`: a deletion that makes no progress is a Warning; so long finalizers of Module Managers are waited for
    - `purge`: finalizers that block a deletion are removed; None for never

    `removes_finalizers_of_others`: all finalizers of a Kyma are removed once its access Secret is gone.
    """

    unreachable: Duration = Field(
        default=timedelta(seconds=30),
        validation_alias="skr-unreachable-grace",
        description="time without an answer of the SKR after which the state of its Kyma is Error",
    )
    deletion: timedelta = timedelta(minutes=10)
    purging: PurgeSettings = PurgeSettings()
    removes_finalizers_of_others: bool = Field(
        default=False,
        validation_alias="remove-finalizers-of-others",
        description="remove all finalizers, not just its own, from a Kyma that is being deleted and has no access "
        "Secret any more, as upstream does with ENABLE_LEGACY_KYMA_DELETION; from Manifests they are always removed",
    )

    @property
    def purge(self) -> timedelta | None:
        """How long after a deletion finalizers that block it are removed."""
        return self.purging.after


class KymaSettings(DomainSettings):
    """How often Kymas are reconciled without a trigger, also while they are being deleted, and how many at once.

    `pull_secret` is the name of the image pull Secret in KCP, empty for none.
    """

    interval_seconds: Interval = 240.0
    deletion_interval_seconds: DeletionInterval = 5.0
    concurrency: Concurrency = 50
    pull_secret: PullSecret = ""
    timeouts: Timeouts = Timeouts()
    rollout: RolloutSettings = RolloutSettings()
    brake: BrakeSettings = BrakeSettings()


class CatalogSettings(DomainSettings):
    """The settings of the domain."""

    interval_seconds: Interval = 600.0
    removal_interval_seconds: DeletionInterval = 5.0
    purge: PurgeSettings = PurgeSettings()
    concurrency: Concurrency = 20


class MandatorySettings(DomainSettings):
    """The settings of both controllers."""

    interval_seconds: Interval = 300.0
    installation_concurrency: Concurrency = 20
    retirement_concurrency: int = 2
