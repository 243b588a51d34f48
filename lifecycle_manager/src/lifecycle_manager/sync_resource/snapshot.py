"""What is known at the beginning of a reconcile of a SyncResource."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache, partial

from kube_runtime import (
    Causes,
    Clock,
    Index,
    Informer,
    InventoryEntry,
    KubernetesObject,
    ManifestInvalid,
    ObjectKey,
    Request,
    parse_aside,
    parse_objects,
    stored_size,
)
from lifecycle_manager.contract.indexes import MANIFESTS_BY_KYMA, SYNC_RESOURCES_BY_KYMA
from lifecycle_manager.contract.resources import MANIFESTS, SYNC_RESOURCES
from lifecycle_manager.contract.signals import ObjectChanged
from lifecycle_manager.contract.verdict import INVALID_RESOURCE, TEXT_TOO_LARGE
from lifecycle_manager.module_catalog.manifests import module_of_manifest
from lifecycle_manager.object_set.inventory import (
    DEFAULT_NAMESPACE,
    Identity,
    entries_of,
    found_before,
    identities,
    inventory_of,
    known_inventory,
    unresolved_entries,
    without,
)
from lifecycle_manager.object_set.ownership import Claim, Place, by_place, claim_key, claimed_earlier, place_of
from lifecycle_manager.object_set.policy import Policies
from lifecycle_manager.object_set.snapshot import SetSnapshot
from lifecycle_manager.object_set.state import SetState
from lifecycle_manager.options.configuration import SyncResourceSettings
from lifecycle_manager.skr.brake import DeletionBrake
from lifecycle_manager.sync_resource.status import Refusal
from lifecycle_manager_api import Kyma, Manifest, SyncResource, names
from lifecycle_manager_api.kinds import MAX_TEXT_BYTES

MAX_CACHED_TEXT = 64 * 1024
_BEGINNING = datetime.min.replace(tzinfo=UTC)

Text = tuple[KubernetesObject, ...] | Refusal
"""The objects of a text, or why it is not to be applied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncResourceSnapshot(SetSnapshot[SyncResource]):
    """One SyncResource with all that its rules depend on.

    - `claims`: what Manifests and other SyncResources of the Kyma have of the objects in the text
    - `announced`: the objects that events reported, where only these are to be read; None where all are
    - `has_module`: whether the Kyma has the module or is removing it; `exceeds_quota`: whether as many older
      SyncResources of the module are there as there may be
    - `unprotected`: why the admission policy that keeps modules apart is not in force, empty where it is; None before
      that is known
    - `emptied_at`: since when the text has no objects, while some were in the SKR
    - `module_namespace`: the namespace in KCP that the module has by its ModulePolicy
    """

    kyma: Kyma | None = None
    text: Text = ()
    claims: tuple[Claim, ...] = ()
    interval_seconds: float = 120.0
    announced: frozenset[Identity] | None = None
    emptied_at: datetime | None = None
    module_namespace: str = names.KCP_NAMESPACE
    has_module: bool = True
    exceeds_quota: bool = False
    unprotected: str | None = ""

    @property
    def objects(self) -> tuple[KubernetesObject, ...]:
        """The objects of the text; none where it is not to be applied."""
        return () if isinstance(self.text, Refusal) else self.text

    @property
    def is_misplaced(self) -> bool:
        """Whether the SyncResource is not in the namespace of its module, so that it has no effect."""
        return self.resource.metadata.namespace != self.module_namespace


def claim_index(resource: SyncResource) -> Iterator[str]:
    for entry in inventory_of(resource):
        yield claim_key(resource.spec.kyma, entry.group, entry.kind, entry.name)


SYNC_RESOURCES_BY_CLAIM: Index[SyncResource] = Index("claim", claim_index)
"""SyncResources by the objects that they have in their SKR, or may have."""


@dataclass(eq=False, slots=True)
class SyncResourceState(SetState):
    """What this process remembers of a SyncResource from reconcile to reconcile.

    - `claims`: what it claims among the SyncResources of its Kyma by its place, from before the inventory is known
    - `check_due`: the monotonic time from which on every object is read, whatever triggers the reconcile
    """

    claims: Mapping[Place, tuple[InventoryEntry, ...]] = field(default_factory=dict)
    check_due: float = float("-inf")

    def claim(self, objects: Iterable[KubernetesObject]) -> None:
        """Claim objects: of two SyncResources that want one object, the second sees the first's claim."""
        self.claims = by_place(unresolved_entries(objects))

    def remember(self, entries: Iterable[InventoryEntry]) -> None:
        self.inventory = tuple(entries)
        self.claims = by_place(self.inventory)


@dataclass(frozen=True, eq=False)
class SyncResourceReader:
    """Reads the caches of KCP, and the text of a SyncResource."""

    sync_resources: Informer[SyncResource]
    kymas: Informer[Kyma]
    policies: Policies
    brake: DeletionBrake
    clock: Clock
    settings: SyncResourceSettings
    state_of: Callable[[ObjectKey], SyncResourceState | None]
    contested: Callable[[SyncResource, str], None]
    manifests: Informer[Manifest]
    unprotected: Callable[[], str | None]

    async def read(self, request: Request[ObjectKey, SyncResourceState]) -> SyncResourceSnapshot | None:
        """Return what is known of a SyncResource; None where there is none."""
        resource = self.sync_resources.get(request.key)
        if resource is None:
            return None
        announced = self._announced(request.causes, resource, request.state)
        kyma = self.kymas.get(ObjectKey(names.KCP_NAMESPACE, resource.spec.kyma))
        namespace = self.policies.namespace_of(resource.spec.module)
        is_in_place = resource.metadata.namespace == namespace  # decided once, before the first await
        text: Text = ()
        is_read = kyma is not None and not resource.metadata.being_deleted and is_in_place
        if is_read:
            written = resource.spec.resource
            text = await parse_aside(len(written), read_text, written)
        known = known_inventory(resource, request.state.inventory) if is_in_place else ()
        places = {*by_place(known), *(map(place_of, text) if isinstance(text, tuple) else ())}
        claims = tuple(dict.fromkeys(self._claims(request.key, resource.spec.kyma, places)))
        inventory = without(known, claimed_earlier(known, since(resource), claims))
        now, emptied_at = self.clock.now(), resource.status.emptied_at
        if is_read:
            is_empty = text == () and resource.spec.prune and (known or emptied_at is not None)
            emptied_at = (emptied_at or now.replace(microsecond=0)) if is_empty else None
        brake = self.brake.of(resource.spec.kyma, resource, has_objects=bool(known))
        return SyncResourceSnapshot(
            resource=resource,
            kyma=kyma,
            now=now,
            inventory=inventory,
            found=found_before(resource),
            text=text,
            rules=self.policies.of_sync_resources(resource.spec.module),
            claims=claims,
            interval_seconds=self.settings.interval_seconds,
            pull_secret=self.settings.pull_secret,
            announced=announced,
            module_namespace=namespace,
            has_module=kyma is not None and self._has_module(kyma, resource.spec.module),
            exceeds_quota=self._exceeds_quota(resource),
            unprotected=self.unprotected(),
            emptied_at=emptied_at,
            brake=self.brake.of_text(resource) if is_read and known and emptied_at is not None else brake,
        )

    def _has_module(self, kyma: Kyma, module: str) -> bool:
        """Tell whether a Kyma has a module, or is removing it. Mandatory modules are in no status."""
        if any(each.name == module for each in kyma.status.modules):
            return True
        manifests = self.manifests.by_index(MANIFESTS_BY_KYMA, kyma.metadata.name)
        return any(module_of_manifest(each) == module for each in manifests)

    def _exceeds_quota(self, resource: SyncResource) -> bool:
        siblings = [
            each
            for each in self.sync_resources.by_index(SYNC_RESOURCES_BY_KYMA, resource.spec.kyma)
            if each.spec.module == resource.spec.module and self.policies.is_in_place(each)
        ]
        most = self.settings.max_per_module
        return len(siblings) > most and sum(since(each) < since(resource) for each in siblings) >= most

    def _announced(
        self, causes: Causes, resource: SyncResource, state: SyncResourceState
    ) -> frozenset[Identity] | None:
        """Fold reported changes into the state; return the objects to read because of them, None where all are."""
        changes, now = causes.of(ObjectChanged), self.clock.monotonic()
        everything = causes.overflowed or len(changes) < len(causes) or now >= state.check_due
        has = identities(known_inventory(resource, state.inventory)) if changes else frozenset()
        own = (each for each in changes if each.reference in has)
        everything |= not state.note(own, now=now, contested=partial(self.contested, resource))
        announced = state.announced()
        return None if everything or not (changes or announced) else announced

    def _claims(self, key: ObjectKey, kyma: str, places: Set[Place]) -> Iterable[Claim]:
        """Return the claims of Manifests and other SyncResources of this Kyma: recorded ones, and those of their state.

        An unmanaged Manifest claims nothing, nor does a SyncResource outside the namespace of its module.
        """

        def claims(other: SyncResource) -> bool:
            return SYNC_RESOURCES.key_of(other) != key and self.policies.is_in_place(other)

        named = {name for _, _, name in places}
        for manifest in self.manifests.by_index(MANIFESTS_BY_KYMA, kyma) if places else ():
            if names.IS_UNMANAGED not in manifest.metadata.annotations:
                near = (each for each in manifest.status.synced if each.name in named)
                has = [each for each in near if (each.group, each.kind, each.name) in places]
                name = str(MANIFESTS.key_of(manifest))
                yield from (Claim(entry, "", name, "Manifest") for entry in entries_of(has))
        for place in places:
            for other in self.sync_resources.by_index(SYNC_RESOURCES_BY_CLAIM, claim_key(kyma, *place)):
                if claims(other):
                    found = (each for each in inventory_of(other) if (each.group, each.kind, each.name) == place)
                    yield from (Claim(entry, *since(other)) for entry in found)
        for other in self.sync_resources.by_index(SYNC_RESOURCES_BY_KYMA, kyma) if places else ():
            state = self.state_of(SYNC_RESOURCES.key_of(other))
            if state is None or not (common := state.claims.keys() & places):
                continue
            if claims(other):
                yield from (Claim(entry, *since(other)) for place in common for entry in state.claims[place])


def read_text(text: str) -> Text:
    """Return the objects in a SyncResource's text, or why it is not to be applied."""
    if len(text) > MAX_TEXT_BYTES // 6 and (size := stored_size(text)) > MAX_TEXT_BYTES:
        why = f"the text takes {size} bytes in etcd, more than the maximum of {MAX_TEXT_BYTES}"
        return Refusal(TEXT_TOO_LARGE, f"{why}; move objects to another SyncResource, or to the module's manifest")
    try:
        return _cached(text) if len(text) <= MAX_CACHED_TEXT else _parsed(text)
    except ManifestInvalid as error:
        return Refusal(INVALID_RESOURCE, str(error))


def since(resource: SyncResource) -> tuple[str, str]:
    """Return what orders SyncResources by age: time of creation, then namespace and name."""
    metadata = resource.metadata
    return (metadata.creation_timestamp or _BEGINNING).isoformat(), f"{metadata.namespace}/{metadata.name}"


def _parsed(text: str) -> tuple[KubernetesObject, ...]:
    return parse_objects(text, default_namespace=DEFAULT_NAMESPACE)


_cached = lru_cache(maxsize=64)(_parsed)
"""For a text that is read at admission, and again a moment later by the reconcile."""
