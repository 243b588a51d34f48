"""The modules that the control plane offers: ModuleTemplates, ModuleReleaseMetas, and which Kymas may have them.

Start at `offer`, which indexes the catalog. `audience` says which Kymas may have a module, `affected` which Kymas a
change of the catalog affects, `manifests` builds the Manifest of a module, `module_kinds` lists the kinds of its
Module CRs, and `validation` is what admission checks: functions that several domains use. `controller` looks up the
descriptors that ModuleTemplates leave empty, and `verification` asks who signed them (`verdicts`). `templates`
reports what is behind the links of ModuleTemplates, and which contradict themselves: `identity` says which version of
which module a ModuleTemplate is.
"""

from kyma_oci import ComponentVersion, DescriptorNotFound, DescriptorUnreadable, DescriptorUnverified, LookupFailed
from lifecycle_manager.module_catalog.audience import BARRED, Exclusion, excluded, is_excluded
from lifecycle_manager.module_catalog.controller import Offers, setup
from lifecycle_manager.module_catalog.identity import module_of, version_of
from lifecycle_manager.module_catalog.manifests import (
    differs,
    is_mandatory_manifest,
    kyma_of_manifest,
    module_of_manifest,
    spec_differs,
    wanted_manifest,
    wanted_spec,
    with_content_of,
)
from lifecycle_manager.module_catalog.offer import Offer, is_mandatory
from lifecycle_manager.module_catalog.verdicts import is_unverified

__all__ = [
    "BARRED",
    "ComponentVersion",
    "DescriptorNotFound",
    "DescriptorUnreadable",
    "DescriptorUnverified",
    "Exclusion",
    "LookupFailed",
    "Offer",
    "Offers",
    "differs",
    "excluded",
    "is_excluded",
    "is_mandatory",
    "is_mandatory_manifest",
    "is_unverified",
    "kyma_of_manifest",
    "module_of",
    "module_of_manifest",
    "setup",
    "spec_differs",
    "version_of",
    "wanted_manifest",
    "wanted_spec",
    "with_content_of",
]
