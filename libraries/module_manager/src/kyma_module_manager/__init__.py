"""SDK for module teams: a Module Manager is one function from a Module CR to Kubernetes objects.

    @module_manager("cloud-resources", crd=Infrastructure)
    def objects(config: Infrastructure, context: ModuleContext) -> Iterable[Mapping[str, Any]]:
        for volume in config.spec.nfs_volumes:
            yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {...}, "data": {...}}

`kyma-module-manager run package.module:objects` watches the module's ModuleConfigs in the control plane (KCP), calls
the function for each, and writes the returned objects as a SyncResource, which Lifecycle Manager applies to the SKR.

Start reading at `declaration`, then `rendering`, `plan`, `reconciler` and `controller`; `service` runs them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kyma_module_manager.context import ModuleContext, Synced
    from kyma_module_manager.declaration import ModuleManager, Rendered, module_manager
    from kyma_module_manager.exceptions import (
        ControlPlaneUnreadable,
        DeclarationError,
        ModuleCrUnreadable,
        ModuleManagerError,
        ObjectsRefused,
        PermanentError,
        RenderingFailed,
        StatusRefused,
        SyncFailed,
    )
    from kyma_module_manager.module_cr import MODULE_CR_COLUMNS, ModuleCrStatus
    from kyma_module_manager.rendering import Rendering
    from kyma_module_manager.service import ManagerService, ServiceOptions

__all__ = [
    "MODULE_CR_COLUMNS",
    "ControlPlaneUnreadable",
    "DeclarationError",
    "ManagerService",
    "ModuleContext",
    "ModuleCrStatus",
    "ModuleCrUnreadable",
    "ModuleManager",
    "ModuleManagerError",
    "ObjectsRefused",
    "PermanentError",
    "Rendered",
    "Rendering",
    "RenderingFailed",
    "ServiceOptions",
    "StatusRefused",
    "SyncFailed",
    "Synced",
    "module_manager",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Import a public name at its first use, so that the commands of this package are listed at once."""
        if name in __all__:
            for module in ("exceptions", "context", "declaration", "module_cr", "rendering", "service"):
                found = import_module(f"{__name__}.{module}")
                if hasattr(found, name):
                    return getattr(found, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
