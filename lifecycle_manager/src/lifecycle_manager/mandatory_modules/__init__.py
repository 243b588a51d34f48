"""Mandatory modules: installed in every cluster, the same everywhere, and nobody's to choose.

`installation` gives each Kyma the Manifests of these modules. `retirement` holds the ModuleTemplates and
ModuleReleaseMetas that say what is mandatory, so that none of them goes before the last Manifest that came of it.
"""

from lifecycle_manager.mandatory_modules.installation import MandatoryInstallation
from lifecycle_manager.mandatory_modules.retirement import MandatoryRetirement, ReleaseKey, mandatory_index

__all__ = ["MandatoryInstallation", "MandatoryRetirement", "ReleaseKey", "mandatory_index"]
