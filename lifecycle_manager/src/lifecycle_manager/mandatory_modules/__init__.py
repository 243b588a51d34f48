"""Mandatory modules: installed in every SKR; users can neither choose nor remove them.

Two controllers, between the decisions in `rules`. `Installation` gives each Kyma the Manifests of these modules.
`Retirement` keeps a finalizer on the ModuleTemplates and ModuleReleaseMetas of mandatory modules, so that none of them
is deleted before the last Manifest that was built from it.
"""

from lifecycle_manager.mandatory_modules.controller import setup
from lifecycle_manager.mandatory_modules.snapshot import ReleaseKey
from lifecycle_manager.options.kymas import MandatorySettings

__all__ = ["MandatorySettings", "ReleaseKey", "setup"]
