"""The options of mandatory modules."""

from dataclasses import dataclass

from lifecycle_manager.contract.options import Count, Seconds, concurrency_option, interval_option


@dataclass(frozen=True, slots=True)
class MandatorySettings:
    """The settings of both controllers."""

    interval_seconds: Seconds = interval_option(300.0)
    installation_concurrency: Count = concurrency_option(20)
    retirement_concurrency: int = 2
