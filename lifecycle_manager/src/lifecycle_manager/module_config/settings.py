"""The options of ModuleConfigs."""

from dataclasses import dataclass, field
from typing import Annotated

from annotated_types import Ge

from lifecycle_manager.contract.options import Count, Seconds, concurrency_option, interval_option, option


@dataclass(frozen=True, slots=True)
class Quota:
    """How many Module CRs of one module in one SKR become ModuleConfigs, and how many bytes of text they have."""

    max_objects: Count = option(
        200, "max-module-crs", "maximum of Module CRs of one module that are synchronized from an SKR"
    )
    max_bytes: Annotated[int, Ge(1024)] = option(
        4 * 1024 * 1024,
        "max-module-crs-bytes",
        "maximum of bytes of their texts; what was synchronized before stays",
    )


@dataclass(frozen=True, slots=True)
class ModuleConfigSettings:
    """The settings of the domain."""

    interval_seconds: Seconds = interval_option(240.0)
    concurrency: Count = concurrency_option()
    quota: Quota = field(default_factory=Quota)
