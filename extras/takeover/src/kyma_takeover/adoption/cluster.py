"""What changes in one cluster: it is read by its API server, and nothing is written."""

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

from kube_runtime import Client, InventoryEntry, JsonObject, KindUnknown, KubeconfigPolicy, KubeError, find_object
from kube_runtime.apply.former_managers import merged_into
from kyma_fleet.comparison import cluster_of
from kyma_fleet.documents import Part
from kyma_fleet.problems import Problem
from kyma_fleet.reviews import missing_rights
from kyma_fleet.running import each_of
from kyma_fleet.text import plain
from kyma_takeover import marks
from lifecycle_manager.contract.former import is_former
from lifecycle_manager.contract.resources import FIELD_MANAGER, MANIFESTS
from lifecycle_manager.object_set.inventory import inventory_of
from lifecycle_manager.object_set.ownership import former_owner
from lifecycle_manager_api import Manifest, names

MAX_OBJECTS = 2_000
"""Objects of one cluster that are read."""
CONCURRENCY = 10
CLUSTER_ERRORS = (KubeError, Problem, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What work with a cluster may raise: nobody promises the shape of its answers, and one ends no work with others."""
WATCHER = (
    InventoryEntry("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration", "", "skr-webhook"),
    InventoryEntry("apps", "v1", "Deployment", names.SKR_NAMESPACE, "skr-webhook"),
    InventoryEntry("", "v1", "Secret", names.SKR_NAMESPACE, "skr-webhook-tls"),
    InventoryEntry("", "v1", "Service", names.SKR_NAMESPACE, "skr-webhook"),
    InventoryEntry("scheduling.k8s.io", "v1", "PriorityClass", "", "skr-webhook-priority"),
)
RIGHTS = (
    ("patch", "admissionregistration.k8s.io", "validatingwebhookconfigurations"),
    ("patch", "apiextensions.k8s.io", "customresourcedefinitions"),
    ("patch", "apps", "deployments"),
    ("patch", "", "secrets"),
)
"""Some of the rights that this version needs in a cluster, for objects that it has in each."""


class ClusterReport(Part, frozen=True):
    """What changes in the cluster of a Kyma.

    - `moved`: objects of modules that get another owner of their fields: one patch and one apply each
    - `own`: objects of modules that this version has applied already
    - `missing`: objects of modules that do not exist
    - `foreign`: objects in an inventory that nobody has marked; they are neither changed by the takeover nor pruned
    - `unread`: objects beyond the number that is read
    - `replaced`, `removed`: objects of the former Watcher
    - `catalog`: objects of the module catalog
    - `error`: why the cluster could not be read
    """

    kyma: str
    version: str = ""
    moved: int = 0
    own: int = 0
    missing: int = 0
    foreign: int = 0
    unread: int = 0
    replaced: int = 0
    removed: int = 0
    catalog: int = 0
    missing_rights: tuple[str, ...] = ()
    error: str = ""


async def report_of(kcp: Client, kyma: str, policy: KubeconfigPolicy) -> ClusterReport:
    """Read one cluster. Raises KubeError for the control plane alone."""
    selector = f"{names.KYMA_NAME}={kyma}"
    manifests = (
        await kcp.list(MANIFESTS, names.KCP_NAMESPACE, label_selector=selector, unreadable=lambda _: None)
    ).items  # what is left out was named where all Manifests were counted
    try:
        async with cluster_of(kcp, kyma, is_labelled=False, policy=policy) as skr:
            return await _read(skr, kyma, manifests)
    except CLUSTER_ERRORS as error:
        return ClusterReport(kyma, error=plain(error))


async def _read(skr: Client, kyma: str, manifests: Iterable[Manifest]) -> ClusterReport:
    owned = [(entry, each) for each in manifests for entry in inventory_of(each)]
    kinds = await each_of(owned[:MAX_OBJECTS], lambda pair: _kind_of(skr, *pair), at_once=CONCURRENCY)
    watcher = await each_of(WATCHER, lambda entry: read_object(skr, entry), at_once=CONCURRENCY)
    leftovers = await each_of(marks.WATCHER_OBJECTS, lambda entry: read_object(skr, entry), at_once=CONCURRENCY)
    return ClusterReport(
        kyma,
        await skr.server_version(),
        moved=kinds.count("moved"),
        own=kinds.count("own"),
        missing=kinds.count("missing"),
        foreign=kinds.count("foreign"),
        unread=max(len(owned) - MAX_OBJECTS, 0),
        replaced=sum(each is not None and is_former(each) for each in watcher),
        removed=sum(each is not None for each in leftovers),
        catalog=await _catalog(skr),
        missing_rights=tuple(await missing_rights(skr, RIGHTS)),
    )


async def _kind_of(skr: Client, entry: InventoryEntry, manifest: Manifest) -> str:
    live = await read_object(skr, entry)
    if live is None:
        return "missing"
    key = f"{manifest.metadata.namespace}/{manifest.metadata.name}"
    if merged_into(FIELD_MANAGER, live, marks.MARKS.field_managers) is not None or (
        is_former(live) and former_owner(live) == key
    ):
        return "moved"
    labels = live["metadata"].get("labels") or {}
    return "own" if labels.get(names.MANAGED_BY) == names.LIFECYCLE_MANAGER else "foreign"


async def _catalog(skr: Client) -> int:
    return sum([is_former(each) async for _, items in catalog_pages(skr) for each in items])


async def catalog_pages(skr: Client) -> AsyncIterator[tuple[str, Sequence[JsonObject]]]:
    """Return the catalog of a cluster page by page, each with the kind of its objects. Raises KubeError."""
    for kind in ("ModuleTemplate", "ModuleReleaseMeta"):
        try:
            resource = await skr.mapper.resource(f"{names.GROUP}/v1beta2", kind)
        except KindUnknown:
            continue
        async for page in skr.pages(resource, names.SKR_NAMESPACE):
            yield kind, page.items


async def read_object(skr: Client, entry: InventoryEntry) -> dict[str, Any] | None:
    """Return an object in a cluster; None where it does not exist. Raises KubeError."""
    found = await find_object(skr, entry)
    return found.live if found is not None else None
