"""The marks of the Lifecycle Manager that is written in Go, by which its objects are recognized: data alone.

Whatever it left behind is managed like objects of this version's own: these names are all that differs.
"""

from kube_runtime import InventoryEntry
from lifecycle_manager.contract.former import FormerMarks
from lifecycle_manager_api import names

APPLIER = "declarative.kyma-project.io/applier"
CATALOG_MANAGER = "catalog-sync"
KYMA_MANAGER = "kyma-sync-context"
MANAGED_BY = "kyma"

MANIFEST_FINALIZERS = ("label-removal-finalizer", "resource.kyma-project.io/finalizer")
KYMA_FINALIZERS = (f"{names.GROUP}/purge-finalizer",)
WATCHER_FINALIZERS = (f"{names.GROUP}/watcher",)

MODULE_CR_CREATED = "ModuleCRCreated"
"""The reason of the condition `ModuleCR`, true once the default Module CR was created. Its message names no object."""

WATCHER_OBJECTS = (
    InventoryEntry("", "v1", "Service", names.SKR_NAMESPACE, "skr-webhook-metrics"),
    *(
        InventoryEntry("networking.k8s.io", "v1", "NetworkPolicy", names.SKR_NAMESPACE, f"kyma-project.io--{name}")
        for name in ("seed-to-watcher", "watcher-to-apiserver", "metrics-to-watcher", "watcher-to-dns")
    ),
)

MARKS = FormerMarks(
    managed_by=MANAGED_BY,
    field_managers=frozenset({APPLIER}),
    watcher_field_managers=frozenset({names.LIFECYCLE_MANAGER}),
    finalizers=frozenset({*MANIFEST_FINALIZERS, *KYMA_FINALIZERS, *WATCHER_FINALIZERS}),
    conditions=frozenset({("SKRWebhook", "Ready"), ("ModuleCatalog", "Ready"), ("ModuleCR", MODULE_CR_CREATED)}),
    watcher_objects=WATCHER_OBJECTS,
)
