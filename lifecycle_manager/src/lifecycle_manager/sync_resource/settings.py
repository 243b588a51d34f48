"""The options of SyncResources."""

from dataclasses import dataclass, field

from lifecycle_manager.contract.options import (
    Count,
    Seconds,
    SecretName,
    concurrency_option,
    objects_interval_option,
    option,
    pull_secret_option,
)
from lifecycle_manager.skr.settings import BrakeSettings


@dataclass(frozen=True, slots=True)
class SyncResourceSettings:
    """Options of this controller. `pull_secret`: the name of the image pull Secret."""

    interval_seconds: Seconds = objects_interval_option(120.0)
    pull_secret: SecretName = pull_secret_option()
    max_per_module: Count = option(
        100, "max-sync-resources", "maximum of SyncResources that a module has for one Kyma; the oldest count"
    )
    concurrency: Count = concurrency_option()
    brake: BrakeSettings = field(default_factory=BrakeSettings)
