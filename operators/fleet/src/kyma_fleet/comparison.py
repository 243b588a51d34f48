"""`klm diff`: what Lifecycle Manager would change in a cluster, as its API server sees it by a dry run."""

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

import msgspec

from kube_runtime import (
    Client,
    ClientOptions,
    InventoryEntry,
    KubeconfigInvalid,
    KubeconfigPolicy,
    KubeconfigRefused,
    KubernetesObject,
    ManifestInvalid,
    parse_aside,
    parse_objects,
)
from kube_runtime.apply.difference import ObjectDifference
from kube_runtime.client.kubeconfig import STRICT
from kube_runtime.client.proxies import proxy_of_environment
from kyma_fleet.control_plane import not_found, require_module
from kyma_fleet.documents import Document, Part, print_document
from kyma_fleet.problems import Problem
from kyma_fleet.running import FAILED
from kyma_fleet.screen import Screen
from kyma_fleet.text import code, plain
from kyma_oci import DescriptorUnreadable, Registries, SourceError
from lifecycle_manager.contract.resources import KYMAS, MANIFESTS, SECRETS, SYNC_RESOURCES
from lifecycle_manager.module_catalog.identity import module_of
from lifecycle_manager.module_catalog.manifests import wanted_manifest
from lifecycle_manager.module_catalog.offer import Offer
from lifecycle_manager.module_installation.logins import Logins
from lifecycle_manager.module_installation.rendering import Renderings
from lifecycle_manager.module_sources.downloads import Downloads
from lifecycle_manager.module_sources.references import source_in
from lifecycle_manager.module_sources.store import ObjectStore
from lifecycle_manager.object_set.apply import SkrObjects
from lifecycle_manager.object_set.inventory import DEFAULT_NAMESPACE, own_inventory
from lifecycle_manager.object_set.reporting import set_owner
from lifecycle_manager.skr.access import (
    AccessSecretUnusable,
    SkrAccessError,
    access_index,
    choose_access_secret,
    kubeconfig_in,
)
from lifecycle_manager_api import Manifest, ModuleTemplate, SyncResource, names
from lifecycle_manager_api.conditions import counted

SKR_OPTIONS = ClientOptions(
    timeout_seconds=30,
    connect_timeout_seconds=5,
    attempts=2,
    user_agent="klm",
    max_response_bytes=4 * 1024 * 1024,
    max_values=100_000,
)
"""An answer is one object, of which etcd stores 1.5 MiB. The fleet page decodes it in the loop of a replica."""


@dataclass(frozen=True, slots=True)
class WantedSet:
    """The objects that one resource in the control plane wants, and what of its inventory may be deleted."""

    owner: Manifest | SyncResource
    objects: tuple[KubernetesObject, ...]
    inventory: tuple[InventoryEntry, ...]


@asynccontextmanager
async def cluster_of(
    kcp: Client, kyma: str, *, is_labelled: bool = True, policy: KubeconfigPolicy = STRICT
) -> AsyncIterator[Client]:
    """Open a client of a Kyma's cluster by its access Secret. Raises Problem, KubeError.

    `policy`: what its kubeconfig may do; by default it may not run commands or read files of this machine.
    `is_labelled`: the Secret has the label of this version, without which it is not used; one of the former version may
    be without.
    """
    selector = f"{names.KYMA_NAME}={kyma}"
    if is_labelled:
        selector += f",{names.MANAGED_BY}={names.LIFECYCLE_MANAGER}"
    secrets = (await kcp.list(SECRETS, names.KCP_NAMESPACE, label_selector=selector)).items
    try:
        secret = choose_access_secret(kyma, [each for each in secrets if kyma in access_index(each)])
        try:
            client = await Client.from_kubeconfig(kubeconfig_in(secret), options=SKR_OPTIONS, policy=policy)
        except (KubeconfigInvalid, KubeconfigRefused) as error:
            raise AccessSecretUnusable(secret, str(error)) from None
    except SkrAccessError as error:
        raise Problem(f"no access to the cluster of Kyma {kyma}: {error}") from None
    async with client:
        yield client


async def wanted_sets(kcp: Client, kyma: str, module: str, namespace: str) -> list[WantedSet]:
    """Return what a module wants in a cluster. Raises Problem, KubeError."""
    selector = f"{names.KYMA_NAME}={kyma},{names.MODULE_NAME}={module}"
    manifests = (await kcp.list(MANIFESTS, names.KCP_NAMESPACE, label_selector=selector)).items
    resources = (await kcp.list(SYNC_RESOURCES, label_selector=selector)).items
    found = [await _of_sync_resource(each) for each in resources if not each.metadata.being_deleted]
    found += [await _of_manifest(kcp, each, namespace) for each in manifests if not each.metadata.being_deleted]
    if not found:
        named = f"metadata.name={kyma}"  # a replica, which serves the page, may list Kymas and not get one
        kymas = (await kcp.list(KYMAS, names.KCP_NAMESPACE, field_selector=named)).items
        if not kymas:
            raise not_found(KYMAS, kyma)
        require_module(kymas[0], module)
        raise Problem(f"module {module} has no objects in the cluster of Kyma {kyma}; klm explain {kyma} says why")
    return found


async def wanted_after(
    kcp: Client, kyma: str, offer: Offer, template: ModuleTemplate, namespace: str
) -> list[WantedSet]:
    """Return what the Manifest of a module would want in a cluster with this template. Raises Problem, KubeError."""
    module = module_of(template)
    selector = f"{names.KYMA_NAME}={kyma},{names.MODULE_NAME}={module}"
    item = await kcp.get(KYMAS, kyma, names.KCP_NAMESPACE)
    known = (await kcp.list(MANIFESTS, names.KCP_NAMESPACE, label_selector=selector)).items
    try:
        default, before = offer.default_cr(template), known[0] if known else None
        wanted = wanted_manifest(item, template, offer.component(template), default_cr=default, held=before)
    except DescriptorUnreadable as error:
        raise Problem(f"ModuleTemplate {template.metadata.name}: {error}") from None
    if wanted is None:
        raise Problem(
            f"ModuleTemplate {template.metadata.name} installs nothing by itself, so there is nothing to compare"
        )
    changed = msgspec.structs.replace(known[0], spec=wanted.spec) if known else wanted
    return [await _of_manifest(kcp, changed, namespace)]


async def _of_sync_resource(resource: SyncResource) -> WantedSet:
    text = resource.spec.resource
    try:
        objects = await parse_aside(len(text), parse_objects, text)
    except ManifestInvalid as error:
        raise Problem(f"SyncResource {resource.metadata.name}: {error}") from None
    prunes = resource.spec.prune
    return WantedSet(resource, tuple(objects), own_inventory(resource) if prunes else ())


async def _of_manifest(kcp: Client, manifest: Manifest, namespace: str) -> WantedSet:
    registries, logins = Registries(proxy_of=proxy_of_environment), Logins(kcp)
    try:
        store, source = ObjectStore(registries, Downloads().text), source_in(manifest.spec.install.source)
        module = await store.objects(source, partial(logins.login, manifest), logins.credentials_scope(manifest))
        rendering = Renderings(namespace).of(module, manifest.spec.localized_images)
    except SourceError as error:
        raise Problem(f"Manifest {manifest.metadata.name}: {error.reason}: {error}") from None
    finally:
        await registries.close()
    return WantedSet(manifest, rendering.objects, own_inventory(manifest))


SIGNS = {
    "create": ("+", "green", "is missing and would be created"),
    "change": ("~", "yellow", "differs and would be changed"),
    "recreate": ("±", "yellow", "differs and would be deleted and created anew"),
    "prune": ("-", "red", "is no longer wanted and would be deleted"),
    "fail": ("✗", "red", "can't be compared"),
}
COLOURS = {"+": "green", "-": "red", "@": "cyan"}


class ComparedObject(Part, frozen=True):
    """One object: what would be done with it, and the lines that would change."""

    object: InventoryEntry
    action: str
    lines: tuple[str, ...]
    error: str | None

    @classmethod
    def of(cls, found: ObjectDifference) -> "ComparedObject":
        """Return what the apply would do, without the two lines that repeat which object it is."""
        return cls(found.entry, found.action, tuple(found.text.splitlines()[2:]), found.error)

    @property
    def what(self) -> str:
        """What would be done with it, or why that is not known."""
        return SIGNS[self.action][2] + (f": {self.error}" if self.error else "")

    @property
    def name(self) -> str:
        """The object as `kubectl -o name` writes it."""
        kind = ".".join(filter(None, (self.object.kind.lower(), self.object.group)))
        return f"{kind}/{self.object.name}"


class ClusterComparison(Document, frozen=True):
    """What would change in the cluster of a Kyma."""

    kyma: str
    objects: tuple[ComparedObject, ...]

    def print_table(self, screen: Screen) -> None:
        """Print it for people."""
        for each in self.changes:
            _print_object(each, screen)
        screen.print(_summary(self.objects))

    def names(self) -> Iterator[str]:
        """Return the objects that would change."""
        return (each.name for each in self.changes)

    @property
    def changes(self) -> Sequence[ComparedObject]:
        """The objects that would change."""
        return [each for each in self.objects if each.action != "none"]


def _print_object(found: ComparedObject, screen: Screen) -> None:
    sign, colour, _ = SIGNS[found.action]
    screen.print(f"{screen.painted(f'{sign} {plain(found.object)}', fg=colour, bold=True)} {plain(found.what)}")
    for line in found.lines:
        screen.print("    " + screen.painted(code(line), **_style(line)))


def _summary(differences: Sequence[ComparedObject]) -> str:
    counts: Counter[str] = Counter(each.action for each in differences)
    words = {
        "none": "as wanted",
        "change": "changed",
        "recreate": "created anew",
        "create": "missing",
        "prune": "no longer wanted",
        "fail": "not comparable",
    }
    parts = [f"{counts[action]:,} {word}" for action, word in words.items() if counts[action]]
    return f"{counted(len(differences), 'object')}: {', '.join(parts) or 'none'}"


def _style(line: str) -> dict[str, str]:
    colour = COLOURS.get(line[:1])
    return {"fg": colour} if colour is not None else {}


async def diff(kcp: Client, screen: Screen, kyma: str, module: str, namespace: str) -> int:
    """Print what would change. Returns 0 where nothing does, 1 where something does, 2 where it is not known."""
    wanted = await wanted_sets(kcp, kyma, module, namespace)
    found = await compare(kcp, kyma, wanted, namespace)
    print_document(found, screen)
    actions = {each.action for each in found.objects}
    return FAILED if "fail" in actions else 1 if actions - {"none"} else 0


async def compare(kcp: Client, kyma: str, wanted: Iterable[WantedSet], namespace: str) -> ClusterComparison:
    """Return what would change in a cluster, with the owner's labels and annotations. Raises Problem, KubeError."""
    found: list[ObjectDifference] = []
    async with cluster_of(kcp, kyma) as skr:
        for each in wanted:
            default = namespace if isinstance(each.owner, Manifest) else DEFAULT_NAMESPACE
            objects = SkrObjects.of(None, skr, owner=set_owner(each.owner), namespace=default)
            found += await objects.applier.difference(each.objects, each.inventory)
    return ClusterComparison(kyma=kyma, objects=tuple(map(ComparedObject.of, found)))
