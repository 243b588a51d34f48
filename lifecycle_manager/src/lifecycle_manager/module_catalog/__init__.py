"""What the control plane offers: its modules, who may have them, and how one is to be installed.

`offer` indexes the catalog, `audience` says which clusters a module is for, `descriptor` reads where the objects of a
version are found, and `manifests` writes down what that makes of a module in one cluster. Pure functions all of them;
the folders that look after Kymas, their catalog and the mandatory modules decide by these. `lookups` has the
descriptors that templates leave out.
"""

from lifecycle_manager.module_catalog.audience import Exclusion, excluded
from lifecycle_manager.module_catalog.descriptor import DescriptorNotFound, DescriptorUnreadable
from lifecycle_manager.module_catalog.lookups import ComponentVersion, LookupFailed, Lookups
from lifecycle_manager.module_catalog.manifests import (
    differs,
    is_mandatory_manifest,
    kyma_of_manifest,
    module_of_manifest,
    wanted_manifest,
)
from lifecycle_manager.module_catalog.offer import Offer, Offers, is_mandatory, module_of

__all__ = [
    "ComponentVersion",
    "DescriptorNotFound",
    "DescriptorUnreadable",
    "Exclusion",
    "LookupFailed",
    "Lookups",
    "Offer",
    "Offers",
    "differs",
    "excluded",
    "is_mandatory",
    "is_mandatory_manifest",
    "kyma_of_manifest",
    "module_of",
    "module_of_manifest",
    "wanted_manifest",
]
