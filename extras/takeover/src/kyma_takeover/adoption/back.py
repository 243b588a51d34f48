"""What an object has to look like for the former version to take it for its own: pure functions to patches.

Its field managers own again what this version has applied, so that its next apply removes what it does not have; its
labels and annotations say whose the object is. Nothing else of an object changes.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from kube_runtime import InventoryEntry, JsonObject
from kube_runtime.apply.former_managers import merged_into
from kyma_takeover import marks
from lifecycle_manager.catalog_sync.apply import FIELD_MANAGER as OUR_CATALOG_MANAGER
from lifecycle_manager.contract.resources import FIELD_MANAGER
from lifecycle_manager.skr_webhook.apply import FIELD_MANAGER as OUR_WATCHER_MANAGER
from lifecycle_manager_api import Condition, Kyma, Manifest, SkrRecords, names

Patch = dict[str, Any]
KYMA_CONDITIONS = frozenset({"Modules", "ModuleCatalog", "SKRWebhook", "CRDsSync", "SKRImagePullSecretSync"})
"""The conditions of a Kyma that the former version has. It never becomes Ready with another one that is not True."""
MANIFEST_CONDITIONS = frozenset({"Resources", "Installation", "ModuleCR"})
WATCHER_ONLY_OURS = (
    InventoryEntry("", "v1", "ServiceAccount", names.SKR_NAMESPACE, "skr-webhook"),
    InventoryEntry("networking.k8s.io", "v1", "NetworkPolicy", names.SKR_NAMESPACE, "skr-webhook"),
    InventoryEntry("policy", "v1", "PodDisruptionBudget", names.SKR_NAMESPACE, "skr-webhook"),
)
"""Objects of this version's Watcher that the former one has not."""


@dataclass(frozen=True, slots=True)
class FormerManager:
    """A field manager of the former version, and those of this version that have replaced it."""

    manager: str
    ours: frozenset[str]


MODULES = FormerManager(marks.APPLIER, frozenset({FIELD_MANAGER}))
CATALOG = FormerManager(marks.CATALOG_MANAGER, frozenset({OUR_CATALOG_MANAGER}))
WATCHER = FormerManager(names.LIFECYCLE_MANAGER, frozenset({OUR_WATCHER_MANAGER}))
MANIFESTS = FormerManager(marks.APPLIER, frozenset({FIELD_MANAGER}))
KYMA_CR = FormerManager(marks.KYMA_MANAGER, frozenset())


def of_module_object(live: JsonObject, manifest: Manifest) -> Patch | None:
    """Return the patch of an object of a module; None where it is not this version's, or needs none."""
    key = f"{manifest.metadata.namespace}/{manifest.metadata.name}"
    annotations = live["metadata"].get("annotations") or {}
    if not _is_ours(live) or annotations.get(names.OWNED_BY) != key:
        return None
    owner = {names.OWNED_BY: None, names.DEPRECATED_OWNED_BY: key}
    return _patch(live, MODULES, {names.MANAGED_BY: marks.MANAGED_BY, names.MODULE_NAME: None}, owner)


def of_catalog_object(live: JsonObject) -> Patch | None:
    """Return the patch of an object of the catalog; None where it is not this version's."""
    return _patch(live, CATALOG, {names.MANAGED_BY: marks.MANAGED_BY}) if _is_ours(live) else None


def of_watcher_object(live: JsonObject) -> Patch | None:
    """Return the patch of an object of the Watcher; None where it is not this version's."""
    return _patch(live, WATCHER, {names.MANAGED_BY: marks.MANAGED_BY}) if _is_ours(live) else None


def of_kyma_cr(live: JsonObject, kyma: str) -> Patch | None:
    """Return the patch of the Kyma CR in a cluster; None where it needs none."""
    annotations = {names.OWNED_BY: None, names.DEPRECATED_OWNED_BY: f"{names.KCP_NAMESPACE}/{kyma}"}
    return _patch(live, KYMA_CR, {names.MANAGED_BY: marks.MANAGED_BY}, annotations)


def of_kyma(kyma: Kyma) -> Patch | None:
    """Return the patch of the status of a Kyma in the control plane: it loses this version's conditions and records."""
    kept = of_status(kyma.status.conditions, KYMA_CONDITIONS)
    status: Patch = {"conditions": msgspec.to_builtins(kept)} if kept is not None else {}
    if kyma.status.records != SkrRecords():
        status["records"] = None
    return {"metadata": {"uid": kyma.metadata.uid}, "status": status} if status else None


def of_manifest(live: JsonObject) -> Patch | None:
    """Return the patch of a Manifest; None where it needs none.

    Its spec has the same field manager in both versions, and its status has not: what the former version leaves out of
    that would stay, such as the inventory of a module that it has removed.
    """
    fields = merged_into(MANIFESTS.manager, live, MANIFESTS.ours, subresource="status")
    return {"metadata": {"managedFields": fields, **_read_version(live)}} if fields is not None else None


def of_status(conditions: Iterable[Condition], known: Collection[str]) -> list[Condition] | None:
    """Return the conditions that the former version has too; None where there are no others."""
    every = list(conditions)
    kept = [each for each in every if each.type in known]
    return kept if len(kept) < len(every) else None


def _is_ours(live: JsonObject) -> bool:
    return (live["metadata"].get("labels") or {}).get(names.MANAGED_BY) == names.LIFECYCLE_MANAGER


def _patch(
    live: JsonObject, owner: FormerManager, labels: Mapping[str, str | None], annotations: Mapping[str, str | None] = {}
) -> Patch | None:
    metadata = live["metadata"]
    fields = merged_into(owner.manager, live, owner.ours)
    found: Patch = {
        key: changed
        for key, wanted in (("labels", labels), ("annotations", annotations))
        if (changed := _changed(metadata.get(key) or {}, wanted))
    }
    if fields is not None:
        found["managedFields"] = fields
    return {"metadata": found | _read_version(live)} if found else None


def _read_version(live: JsonObject) -> Patch:
    """Return the precondition that nobody has written meanwhile."""
    return {"resourceVersion": live["metadata"]["resourceVersion"]}


def _changed(present: Mapping[str, str], wanted: Mapping[str, str | None]) -> dict[str, str | None]:
    return {key: value for key, value in wanted.items() if present.get(key) != value}
