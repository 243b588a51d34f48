"""The option of the status of Module CRs."""

from dataclasses import dataclass

from lifecycle_manager.contract.options import Count, config_concurrency_option


@dataclass(frozen=True, slots=True)
class ModuleCrStatusSettings:
    """The settings of the domain."""

    concurrency: Count = config_concurrency_option()
