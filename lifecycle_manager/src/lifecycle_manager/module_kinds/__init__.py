"""By which kinds a module is configured, as its template says; nobody writes that down a second time.

The kind of the default Module CR in the template or, where it holds none, those that the CustomResourceDefinitions in
its resources define. `kinds` finds them, `download` fetches the resources.
"""

from lifecycle_manager.module_kinds.download import DownloadFailed, Downloads
from lifecycle_manager.module_kinds.kinds import ModuleCrKind, ModuleKinds, TemplateUnreadable

__all__ = ["DownloadFailed", "Downloads", "ModuleCrKind", "ModuleKinds", "TemplateUnreadable"]
