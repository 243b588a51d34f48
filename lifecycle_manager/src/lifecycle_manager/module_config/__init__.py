"""ModuleConfig: a user's Module CR, copied from the SKR to KCP for the Module Manager of the module.

For each module whose ModuleTemplate enables it, the Module CRs in the SKR are read and written to KCP as text, one
ModuleConfig each. An event says which object to read at once; without events each interval finds all changes. The
content is always read from the API server, never taken from an event.

`controller` says what triggers it and what is done then; `reading` and `texts` bound what comes from the SKR; `rules`
holds all decisions, such as the quota of a module.
"""

from lifecycle_manager.module_config.controller import setup
from lifecycle_manager.module_config.keys import ModuleKey
from lifecycle_manager.options.configuration import ModuleConfigSettings, Quota

__all__ = ["ModuleConfigSettings", "ModuleKey", "Quota", "setup"]
