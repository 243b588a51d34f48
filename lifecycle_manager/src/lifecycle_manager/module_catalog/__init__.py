"""The modules that the control plane offers: ModuleTemplates, ModuleReleaseMetas, and which Kymas may have them.

Start at `offer`, which indexes the catalog. `audience` says which Kymas may have a module, `affected` which Kymas a
change of the catalog affects, `manifests` builds the Manifest of a module, `module_kinds` lists the kinds of its
Module CRs, and `validation` is what admission checks: functions that several domains use. `controller` looks up the
descriptors that ModuleTemplates leave empty, and `verification` asks who signed them (`verdicts`). `templates`
reports what is behind the links of ModuleTemplates, and which contradict themselves: `identity` says which version of
which module a ModuleTemplate is.
"""

from lifecycle_manager.module_catalog.controller import setup

__all__ = ["setup"]
