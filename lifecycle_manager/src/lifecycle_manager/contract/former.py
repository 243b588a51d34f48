"""The marks of the Lifecycle Manager that is written in Go, by which its objects are recognized: data, no I/O.

Whatever it left behind is managed like objects of this version's own: these names are all that differs.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from kube_runtime import InventoryEntry
from lifecycle_manager_api import Condition, Manifest, names, raw_object

APPLIER = "declarative.kyma-project.io/applier"
CATALOG_MANAGER = "catalog-sync"
KYMA_MANAGER = "kyma-sync-context"
FIELD_MANAGERS = frozenset({APPLIER})
"""Applied the objects of modules."""

WATCHER_FIELD_MANAGERS = frozenset({names.LIFECYCLE_MANAGER})
"""Applied the objects of the Watcher."""

MANAGED_BY = "kyma"
"""The value of the label `managed-by` on its objects in SKRs."""

MANIFEST_FINALIZERS = ("label-removal-finalizer", "resource.kyma-project.io/finalizer")
KYMA_FINALIZERS = (f"{names.GROUP}/purge-finalizer",)
WATCHER_FINALIZERS = (f"{names.GROUP}/watcher",)

PARTS = frozenset({"SKRWebhook", "ModuleCatalog"})
PART_CONDITION = "Ready"
"""The reason of these conditions of a Kyma, whatever their status."""

MODULE_CR_CREATED = "ModuleCRCreated"
"""The reason of the condition `ModuleCR`, true once the default Module CR was created. Its message names no object."""


def had(manifest: Manifest) -> bool:
    """Tell whether the former version installed a Manifest. Its finalizers stay for the way back."""
    return not {*MANIFEST_FINALIZERS}.isdisjoint(manifest.metadata.finalizers)


def is_owned_by(live: Mapping[str, Any], owner: str) -> bool:
    """Tell whether an object in an SKR has the marks of the former version that name an owner, `namespace/name`."""
    metadata = live["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    named = annotations.get(names.OWNED_BY) or annotations.get(names.DEPRECATED_OWNED_BY)
    return labels.get(names.MANAGED_BY) == MANAGED_BY and named == owner


def is_created(condition: Condition) -> bool:
    """Tell whether a condition `ModuleCR` that is true was written by the former version."""
    return condition.reason == MODULE_CR_CREATED


def named_as_before(wanted: msgspec.Raw, held: msgspec.Raw) -> msgspec.Raw:
    """Return a default Module CR, with the name and namespace that its Manifest holds where it says no name itself.

    The former version gave such an object the name of its Manifest, and so it is in the cluster.
    """
    document, before = raw_object(wanted), raw_object(held)
    if document is None or before is None or (document.get("metadata") or {}).get("name"):
        return wanted
    known = {key: value for key, value in (before.get("metadata") or {}).items() if key in {"name", "namespace"}}
    if "name" not in known or (document.get("apiVersion"), document.get("kind")) != (
        before.get("apiVersion"),
        before.get("kind"),
    ):
        return wanted
    return msgspec.Raw(msgspec.json.encode({**document, "metadata": {**(document.get("metadata") or {}), **known}}))


def is_of_a_part(condition: Condition) -> bool:
    """Tell whether a condition of a Kyma says that the former version installed a part in the cluster."""
    return condition.type in PARTS and condition.reason == PART_CONDITION


WATCHER_OBJECTS = (
    InventoryEntry("", "v1", "Service", names.SKR_NAMESPACE, "skr-webhook-metrics"),
    *(
        InventoryEntry("networking.k8s.io", "v1", "NetworkPolicy", names.SKR_NAMESPACE, f"kyma-project.io--{name}")
        for name in ("seed-to-watcher", "watcher-to-apiserver", "metrics-to-watcher", "watcher-to-dns")
    ),
)
"""The objects of its Watcher that this version's has no more."""


def is_marked(live: Mapping[str, Any]) -> bool:
    """Tell whether an object in an SKR has the label of the former version."""
    return (live["metadata"].get("labels") or {}).get(names.MANAGED_BY) == MANAGED_BY
