"""Whether the admission policy that keeps modules apart is in force in KCP (lifecycle_manager_api, docs/trust.md).

Lifecycle Manager applies what a SyncResource says on behalf of the module that it names, so it relies on the policy. An
administrator can delete it, or an installation can lack it, without any other effect: so this is checked, and Lifecycle
Manager is not ready without it. `plan` decides by what `checking` reads.
"""

from lifecycle_manager.module_authorization.checking import setup
from lifecycle_manager.options.modules import ModuleAuthorizationSettings

__all__ = ["ModuleAuthorizationSettings", "setup"]
