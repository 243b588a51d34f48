"""The module catalog in each SKR: the ModuleTemplates and ModuleReleaseMetas that its users may choose from.

Start with `controller`: the triggers, and what a reconcile does; `rules` decides in between, `apply` has the requests.
`wanted` says what an SKR has, once for all SKRs with the same audience. As long as the resource versions of the objects
are those that were written (`snapshot`), a check reads nothing else.
"""

from lifecycle_manager.catalog_sync.controller import setup
from lifecycle_manager.options.kymas import CatalogSettings

__all__ = ["CatalogSettings", "setup"]
