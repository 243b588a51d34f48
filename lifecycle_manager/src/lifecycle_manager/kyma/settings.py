"""The settings of Kymas: how often they are reconciled, and how long a state may last."""

from dataclasses import dataclass, field
from datetime import timedelta

from lifecycle_manager.contract.options import (
    Count,
    Duration,
    PurgeSettings,
    Seconds,
    SecretName,
    concurrency_option,
    deletion_interval_option,
    interval_option,
    option,
    pull_secret_option,
)
from lifecycle_manager.rollout.settings import RolloutSettings
from lifecycle_manager.skr.settings import BrakeSettings


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long a state may last before it is reported or acted on.

    - `unreachable`: an SKR that does not answer makes its Kyma an Error
    - `deletion`: a deletion that makes no progress is a Warning; so long finalizers of Module Managers are waited for
    - `purge`: finalizers that block a deletion are removed; None for never

    With `others_finalizers` a Kyma whose access Secret is gone loses the finalizers of others as well.
    """

    unreachable: Duration = option(
        timedelta(seconds=30),
        "skr-unreachable-grace",
        "time without an answer of the SKR after which the state of its Kyma is Error",
    )
    deletion: timedelta = timedelta(minutes=10)
    purging: PurgeSettings = field(default_factory=PurgeSettings)
    others_finalizers: bool = option(
        False,
        "remove-finalizers-of-others",
        "remove all finalizers, not just its own, from a Kyma that is being deleted and has no access Secret any more, "
        "as upstream does with ENABLE_LEGACY_KYMA_DELETION; from Manifests they are always removed",
    )

    @property
    def purge(self) -> timedelta | None:
        """How long after a deletion finalizers that block it are removed."""
        return self.purging.after


@dataclass(frozen=True, slots=True)
class KymaSettings:
    """How often Kymas are reconciled without a trigger, also while they are being deleted, and how many at once.

    `pull_secret` is the name of the image pull Secret in KCP, empty for none.
    """

    interval_seconds: Seconds = interval_option(240.0)
    deletion_interval_seconds: Seconds = deletion_interval_option()
    concurrency: Count = concurrency_option()
    pull_secret: SecretName = pull_secret_option()
    timeouts: Timeouts = field(default_factory=Timeouts)
    rollout: RolloutSettings = field(default_factory=RolloutSettings)
    brake: BrakeSettings = field(default_factory=BrakeSettings)
