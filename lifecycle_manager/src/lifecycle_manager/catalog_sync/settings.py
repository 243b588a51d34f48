"""The options of module catalogs."""

from dataclasses import dataclass, field

from lifecycle_manager.contract.options import (
    Count,
    PurgeSettings,
    Seconds,
    concurrency_option,
    deletion_interval_option,
    interval_option,
)


@dataclass(frozen=True, slots=True)
class CatalogSettings:
    """The settings of the domain."""

    interval_seconds: Seconds = interval_option(600.0)
    removal_interval_seconds: Seconds = deletion_interval_option()
    purge: PurgeSettings = field(default_factory=PurgeSettings)
    concurrency: Count = concurrency_option(20)
