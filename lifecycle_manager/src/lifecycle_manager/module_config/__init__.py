"""ModuleConfig: a user's Module CR, brought from the SKR to KCP for the module's Module Manager.

For each module whose template enables it, the Module CRs in the SKR are read and written to KCP as text, one
ModuleConfig each. An event says which object to read at once; without events the interval finds every change.
The truth is always what was read, never what an event said.

Read `plan` for the rules, then `observe` and `act`.
"""

from lifecycle_manager.module_config.reconciler import (
    ModuleConfigReconciler,
    ModuleKey,
    keys_of,
    module_index,
)

__all__ = ["ModuleConfigReconciler", "ModuleKey", "keys_of", "module_index"]
