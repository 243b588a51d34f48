"""The options of module catalogs."""

from dataclasses import dataclass, field

from lifecycle_manager.contract.options import Count, PurgeSettings, Seconds, deletion_interval_option, option


@dataclass(frozen=True, slots=True)
class CatalogSettings:
    """The settings of the domain."""

    interval_seconds: Seconds = option(
        600.0,
        "catalog-requeue-success-interval",
        "interval at which the module catalog of an SKR is reconciled without an event",
    )
    removal_interval_seconds: Seconds = deletion_interval_option()
    purge: PurgeSettings = field(default_factory=PurgeSettings)
    concurrency: Count = option(
        20, "max-concurrent-catalog-reconciles", "concurrent reconciles of module catalogs in SKRs"
    )
