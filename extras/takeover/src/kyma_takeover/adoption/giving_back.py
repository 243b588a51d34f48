"""Gives one Kyma with its cluster back to the former version. Each write is idempotent, so all can be done again."""

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import msgspec

from kube_runtime import (
    Client,
    Conflict,
    InventoryEntry,
    JsonObject,
    KindUnknown,
    KubeconfigPolicy,
    NotFound,
    Resource,
    find_object,
)
from kube_runtime.client.kubeconfig import STRICT
from kube_runtime.finalizers import remove_finalizers
from kyma_fleet.comparison import cluster_of
from kyma_fleet.reviews import missing_rights
from kyma_fleet.running import each_of
from kyma_fleet.text import plain
from kyma_takeover.adoption import back
from kyma_takeover.adoption.cluster import CLUSTER_ERRORS, CONCURRENCY, RIGHTS, WATCHER, catalog_pages
from kyma_takeover.adoption.reading import bare
from lifecycle_manager.contract.resources import (
    KYMAS,
    MANIFESTS,
    MODULE_RELEASE_METAS,
    MODULE_TEMPLATES,
    RAW_KYMAS,
    SECRETS,
    SYNC_RESOURCES,
)
from lifecycle_manager.object_set.inventory import inventory_of
from lifecycle_manager.watcher_certificates import cert_manager, gardener
from lifecycle_manager.watcher_certificates.tls_secret import CERTIFICATE_PURPOSE
from lifecycle_manager_api import Kyma, Manifest, ObjectMeta, names

ATTEMPTS = 5
FIELD_MANAGER = "klm"
RIGHTS_TO_GIVE_BACK = (
    *RIGHTS,
    ("patch", names.GROUP, KYMAS.plural),
    ("patch", names.GROUP, MODULE_TEMPLATES.plural),
    ("patch", names.GROUP, MODULE_RELEASE_METAS.plural),
    ("delete", "", "serviceaccounts"),
    ("delete", "networking.k8s.io", "networkpolicies"),
    ("delete", "policy", "poddisruptionbudgets"),
)
"""What giving back needs in a cluster, for objects that this version has in each."""


class _PartOfKyma(msgspec.Struct, frozen=True):
    """What is read of a SyncResource, so that one that does not fit its type is given back, too."""

    metadata: ObjectMeta
    spec: Mapping[str, Any] = {}


_PARTS: Resource[_PartOfKyma] = replace(cast("Resource[Any]", SYNC_RESOURCES), type=_PartOfKyma)


@dataclass(frozen=True)
class GivingBack:
    """Gives a Kyma back; the numbers that are returned are those of objects that were changed.

    `policy`: what kubeconfigs in access Secrets may do.
    """

    kcp: Client
    policy: KubeconfigPolicy = STRICT

    async def obstacle(self, kyma: str) -> str:
        """Return why the cluster of a Kyma can't be given back; empty where it can. Nothing is written."""
        try:
            async with cluster_of(self.kcp, kyma, is_labelled=False, policy=self.policy) as skr:
                missing = await missing_rights(skr, RIGHTS_TO_GIVE_BACK)
        except CLUSTER_ERRORS as error:
            return plain(error)
        return f"its access may not {', '.join(missing)}" if missing else ""

    async def kyma(self, kyma: Kyma) -> int:
        """Change what the former version would not take for its own. Raises Problem, KubeError.

        Where the cluster can't be read, the control plane is changed all the same: what this version has there would
        keep the former one from the cluster for ever.
        """
        name = kyma.metadata.name
        selector = f"{names.KYMA_NAME}={name}"
        changed = await self._kyma(kyma)  # first: an adoption from here on would believe the records of the cluster
        manifests = (await self.kcp.list(MANIFESTS, names.KCP_NAMESPACE, label_selector=selector)).items
        try:
            async with cluster_of(self.kcp, name, is_labelled=False, policy=self.policy) as skr:
                changed += await self._cluster(skr, name, manifests)
        except CLUSTER_ERRORS:
            await self._control_plane(name, manifests)
            raise
        return changed + await self._control_plane(name, manifests)

    async def sync_resources(self, kymas: Collection[str]) -> int:
        """Remove a finalizer that the former version does not know: it would block the deletion of these Kymas."""
        having: list[ObjectMeta] = []
        with suppress(KindUnknown):  # this version was not installed yet, and so not their CRD
            async for page in self.kcp.pages(_PARTS):
                having += [each.metadata for each in page.items if each.spec.get("kyma") in kymas]
        return await self._without(names.SYNC_RESOURCE_FINALIZER, _PARTS, having)

    async def templates(self) -> int:
        """Remove a finalizer that the former version knows of ModuleReleaseMetas only: no template could be deleted."""
        templates = bare(MODULE_TEMPLATES)
        listed = await self.kcp.list_metadata(templates, names.KCP_NAMESPACE)
        return await self._without(names.MANDATORY_FINALIZER, templates, (each.metadata for each in listed))

    async def _without(self, finalizer: str, resource: Resource[Any], metadata: Iterable[ObjectMeta]) -> int:
        """Remove a finalizer from objects in the version that was read, and return from how many."""
        having = [each for each in metadata if finalizer in each.finalizers]
        for each in having:
            await remove_finalizers(self.kcp, resource, each, finalizer, field_manager=FIELD_MANAGER)
        return len(having)

    async def _cluster(self, skr: Client, kyma: str, manifests: tuple[Manifest, ...]) -> int:
        changed = 0
        for manifest in manifests:
            entries = inventory_of(manifest)
            changed += sum(await each_of(entries, partial(_return_module_object, skr, manifest), at_once=CONCURRENCY))
        watcher = await each_of(
            WATCHER, lambda entry: _return(skr, entry, back.of_watcher_object, back.WATCHER), at_once=CONCURRENCY
        )
        changed += sum(watcher) + await _return_catalog(skr)
        for entry in back.WATCHER_ONLY_OURS:
            changed += await _delete(skr, entry)
        cr = InventoryEntry(names.GROUP, KYMAS.version, KYMAS.kind, names.SKR_NAMESPACE, names.DEFAULT_KYMA_NAME)
        return changed + await _return(skr, cr, lambda live: back.of_kyma_cr(live, kyma), back.KYMA_CR)

    async def _kyma(self, kyma: Kyma) -> int:
        patch = back.of_kyma(kyma)
        return 0 if patch is None else await self._patch(RAW_KYMAS, kyma.metadata.name, patch, "status")

    async def _control_plane(self, kyma: str, manifests: tuple[Manifest, ...]) -> int:
        changed = 0
        for manifest in manifests:
            if (kept := back.of_status(manifest.status.conditions, back.MANIFEST_CONDITIONS)) is not None:
                status = {"conditions": msgspec.to_builtins(kept)}
                changed += await self._patch(MANIFESTS, manifest.metadata.name, {"status": status}, "status")
            named = (manifest.metadata.namespace, manifest.metadata.name)
            entry = InventoryEntry(names.GROUP, MANIFESTS.version, MANIFESTS.kind, *named)
            changed += await _return(self.kcp, entry, back.of_manifest, back.MANIFESTS)
        purpose = f"{names.KYMA_NAME}={kyma},{names.PURPOSE}={CERTIFICATE_PURPOSE}"
        for secret in (await self.kcp.list(SECRETS, names.KCP_NAMESPACE, label_selector=purpose)).items:
            await self._delete_certificate(secret.metadata.name)
            changed += 1
        return changed

    async def _delete_certificate(self, name: str) -> None:
        """Delete the Secret with a Watcher's certificate, and before it what would have it issued again."""
        for resource in (cert_manager.CERTIFICATES, gardener.CERTIFICATES, SECRETS):
            with suppress(NotFound, KindUnknown):  # cert-manager or Gardener is not installed
                await self.kcp.delete(resource, name, names.KCP_NAMESPACE)

    async def _patch(
        self, resource: Resource[Any], name: str, patch: back.Patch, subresource: str | None = None
    ) -> int:
        await self.kcp.merge_patch(
            resource, name, patch, names.KCP_NAMESPACE, field_manager=FIELD_MANAGER, subresource=subresource
        )
        return 1


async def _return_module_object(skr: Client, manifest: Manifest, entry: InventoryEntry) -> int:
    return await _return(skr, entry, lambda live: back.of_module_object(live, manifest), back.MODULES)


async def _return_catalog(skr: Client) -> int:
    changed = 0
    async for kind, items in catalog_pages(skr):
        entries = [
            InventoryEntry(names.GROUP, "v1beta2", kind, names.SKR_NAMESPACE, each["metadata"]["name"])
            for each in items
        ]
        given_back = await each_of(
            entries, lambda entry: _return(skr, entry, back.of_catalog_object, back.CATALOG), at_once=CONCURRENCY
        )
        changed += sum(given_back)
    return changed


async def _return(
    skr: Client, entry: InventoryEntry, patch_of: Callable[[JsonObject], back.Patch | None], owner: back.FormerManager
) -> int:
    """Patch an object in the version that was read, as the former field manager; somebody else may write meanwhile."""
    for attempt in range(ATTEMPTS):
        found = await find_object(skr, entry)
        patch = patch_of(found.live) if found is not None else None
        if found is None or patch is None:
            return 0
        try:
            await skr.merge_patch(
                found.resource, entry.name, patch, entry.namespace or None, field_manager=owner.manager
            )
        except NotFound:
            return 0
        except Conflict:
            if attempt == ATTEMPTS - 1:
                raise
        else:
            return 1
    return 0


async def _delete(skr: Client, entry: InventoryEntry) -> int:
    found = await find_object(skr, entry)
    if found is None or back.of_watcher_object(found.live) is None:
        return 0
    try:
        await skr.delete(found.resource, entry.name, entry.namespace)
    except NotFound:
        return 0
    return 1
