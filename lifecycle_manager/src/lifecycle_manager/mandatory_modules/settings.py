"""The options of mandatory modules."""

from dataclasses import dataclass

from lifecycle_manager.contract.options import Count, Seconds, option


@dataclass(frozen=True, slots=True)
class MandatorySettings:
    """The settings of both controllers."""

    interval_seconds: Seconds = option(
        300.0,
        "mandatory-module-requeue-success-interval",
        "interval at which mandatory modules are reconciled without a change",
    )
    installation_concurrency: Count = option(
        20, "max-concurrent-mandatory-modules-reconciles", "concurrent reconciles of mandatory modules"
    )
    retirement_concurrency: Count = option(
        2,
        "max-concurrent-mandatory-modules-deletion-reconciles",
        "concurrent reconciles of deleted mandatory modules",
    )
