"""The option of the status of Module CRs."""

from dataclasses import dataclass

from lifecycle_manager.contract.options import Count, concurrency_option


@dataclass(frozen=True, slots=True)
class ModuleCrStatusSettings:
    """The settings of the domain."""

    concurrency: Count = concurrency_option()
