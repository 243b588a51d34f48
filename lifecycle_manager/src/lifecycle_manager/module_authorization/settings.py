"""The options of the check that modules are kept apart."""

from dataclasses import dataclass

from lifecycle_manager.contract.options import Namespace, lease_namespace_option, option


@dataclass(frozen=True, slots=True)
class ModuleAuthorizationSettings:
    """Where the policy is tried, in the namespace of the Leases; and whether this replica may be ready without it."""

    namespace: Namespace = lease_namespace_option()
    is_optional: bool = option(
        False,
        "allow-unprotected-modules",
        "be ready although the admission policy is not in force without which every module may write for every other "
        "(docs/trust.md)",
    )
