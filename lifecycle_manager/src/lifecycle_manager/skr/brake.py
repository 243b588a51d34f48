"""The brake: what KCP deletes in more than N clusters at once waits for an operator.

The plans of Kymas, Manifests and SyncResources ask it first. A deletion is held

- while a CRD of Lifecycle Manager or its namespace is being deleted in KCP; and that of a SyncResource whose
  ModuleConfig was deleted with its CRD, after that CRD was created again
- while Kymas or Manifests of more clusters than `limit` are being deleted that were deleted in about the same hour, and
  SyncResources of one module likewise: a module team can hold only its own. What users have removed is neither counted
  nor held so, nor is a Kyma counted whose deletion something in its cluster blocks
- likewise where the texts of so many SyncResources of one module lost all their objects in about the same hour:
  `status.emptied_at` records when
- while the access Secret is gone for less than the grace time, or that of more clusters than `limit`

What a change of the catalog removes from very many clusters waits before anything is deleted in KCP (`skr.removals`).

What is held stays so by its status until an operator continues it: fewer are left once others were continued, or saved
by removing their finalizers. The annotation `continue-deletion` of the Kyma (`klm continue`) names a time, and what
began before is not held, however long it takes; what is later, is. What is counted is recorded in KCP. A Manifest that
is deleted as an operator continued a change of the catalog says when that change was: its deletion began then. Objects
are forgotten only with `may_forget`. Limits: `BrakeSettings`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from kube_runtime import Change, Clock, Index, Informer, JsonObject, Manager, ObjectKey
from lifecycle_manager.contract.conditions import DELETION_HELD, was_reached
from lifecycle_manager.contract.indexes import MANIFESTS_BY_KYMA, MODULE_CONFIGS_BY_KYMA
from lifecycle_manager.contract.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    KYMAS,
    MANIFESTS,
    MODULE_CONFIGS,
    MODULE_RELEASE_METAS,
    MODULE_TEMPLATES,
    NAMESPACES,
    SYNC_RESOURCES,
)
from lifecycle_manager.options.clusters import BrakeSettings
from lifecycle_manager.skr.access import AccessSecretMissing
from lifecycle_manager.skr.connections import Connections
from lifecycle_manager_api import Kyma, Manifest, ModuleConfig, ObjectMeta, State, SyncResource, find, names

RECOUNT_SECONDS = 1.0
AT_ONCE_SECONDS = 3600
"""Deletions that began so soon after each other are one mass deletion; one that is stuck since yesterday is none."""
DELETION_STUCK = "DeletionStuck"
"""The reason of a Kyma that was not held, and whose deletion something in its cluster blocks."""
HELD_SECONDS = 30.0
GARBAGE_COLLECTION = timedelta(hours=1)
"""How long after a CRD was created again KCP may still delete what its objects owned."""


@dataclass(frozen=True, slots=True)
class Hold:
    """What a deletion waits for, the reason of its condition, and when to ask again if nothing happens before."""

    waits_for: str
    reason: str = DELETION_HELD
    seconds: float = HELD_SECONDS


@dataclass(frozen=True, slots=True)
class Brake:
    """What the brake says of one deletion. `may_forget`: a cluster without access is taken for deleted."""

    hold: Hold | None = None
    may_forget: bool = False


RELEASED = Brake()


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """One deletion with all that the rule depends on.

    - `continued_at`: what was deleted before, an operator continues
    - `crds`: the CRDs and the Namespace of KCP whose deletion explains this one
    - `clusters`: how many there are; in `deleting` of them such a deletion is under way that began when this one did
      and that no operator continued, and `without_access` were reached and have no access Secret
    - `was_held`: the status says so already
    - `missing_for`: for how many seconds this cluster has had none; None where it has one, or has nothing to forget
    """

    kyma: str
    began: datetime | None
    continued_at: datetime | None = None
    crds: tuple[str, ...] = ()
    clusters: int = 0
    deleting: int = 0
    without_access: int = 0
    missing_for: float | None = None
    was_held: bool = False


def judge(seen: Deletion, settings: BrakeSettings) -> Brake:
    """Return whether a deletion is held, and whether objects without access may be forgotten."""
    if is_continued(seen.began, seen.continued_at):
        return Brake(may_forget=seen.missing_for is not None)
    limit, many = settings.limit(seen.clusters), ""
    if seen.crds:
        many = f"deleted in the control plane: {', '.join(seen.crds)}"
    elif seen.deleting > limit:
        many = f"{seen.deleting} of {seen.clusters} clusters have deletions at once, the limit is {limit}"
    elif seen.without_access > limit:
        many = f"{seen.without_access} of {seen.clusters} clusters have no access Secret, the limit is {limit}"
    elif seen.was_held:
        many = "it was held with those of very many clusters"
    if many:
        return Brake(Hold(f"an operator's word: klm continue {seen.kyma} ({many})"))
    if seen.missing_for is None:
        return RELEASED
    if (left := settings.grace_seconds - seen.missing_for) <= 0:
        return Brake(may_forget=True)
    after = f"after {settings.grace_seconds:.0f} s without it the cluster counts as deleted"
    waits_for = f"its access Secret, which is gone; {after}"
    return Brake(Hold(waits_for, AccessSecretMissing.reason, min(left, HELD_SECONDS)))


def is_continued(began: datetime | None, continued_at: datetime | None) -> bool:
    """Tell whether an operator continues a deletion that began then."""
    return began is not None and continued_at is not None and began <= continued_at


def continued_at(metadata: ObjectMeta | None) -> datetime | None:
    """Return until when deletions are continued by the annotation of an object; None where that is no time."""
    return _time_of(metadata.annotations.get(names.CONTINUE_DELETION, "")) if metadata is not None else None


def removed_since(metadata: ObjectMeta) -> datetime | None:
    """Return when the catalog was changed so that an operator had a Manifest deleted; None for any other."""
    return _time_of(metadata.annotations.get(names.REMOVED_SINCE, "")) if metadata.being_deleted else None


def _time_of(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


def deletion_continued(change: Change[Kyma]) -> bool:
    """Tell whether an operator continues the deletions of a Kyma."""
    old, new = (continued_at(each.metadata) if each is not None else None for each in (change.old, change.new))
    return new is not None and new != old


def _deleting(kyma: str, metadata: ObjectMeta) -> Iterable[str]:
    if kyma and metadata.being_deleted:
        yield ""


DELETING_KYMAS: Index[Kyma] = Index("deleting", lambda it: _deleting(it.metadata.name, it.metadata))
DELETING_MANIFESTS: Index[Manifest] = Index(
    "deleting",
    lambda it: () if _by_users(it.metadata) else _deleting(it.metadata.labels.get(names.KYMA_NAME, ""), it.metadata),
)
DELETING_SYNC_RESOURCES: Index[SyncResource] = Index("deleting", lambda it: _deleting(it.spec.kyma, it.metadata))
EMPTIED_SYNC_RESOURCES: Index[SyncResource] = Index(
    "emptied", lambda it: (it.spec.module,) if it.status.emptied_at is not None or is_emptied(it) else ()
)
"""By module, those whose text has no objects any more, whether these are removed yet or not."""


def _by_users(metadata: ObjectMeta) -> bool:
    """Tell whether users have removed what a Manifest or ModuleConfig was for; Lifecycle Manager alone writes these."""
    return metadata.being_deleted and names.REMOVED_BY_USERS in metadata.annotations


_WATCHED_CRDS = (KYMAS, MANIFESTS, MODULE_CONFIGS, SYNC_RESOURCES, MODULE_TEMPLATES, MODULE_RELEASE_METAS)


@dataclass(eq=False)
class DeletionBrake:
    """Reads for the rule what the caches of KCP hold. `parents`: the CRDs and the Namespace, whose deletion counts."""

    settings: BrakeSettings
    clock: Clock
    connections: Connections
    kymas: Informer[Kyma]
    manifests: Informer[Manifest]
    module_configs: Informer[ModuleConfig]
    sync_resources: Informer[SyncResource]
    parents: Mapping[str, Informer[JsonObject]]
    _deleting: tuple[float, "_Counts"] = field(default_factory=lambda: (float("-inf"), _Counts()), init=False)
    _without_access: tuple[float, int] = field(default=(float("-inf"), 0), init=False)

    @classmethod
    def watched_by(cls, manager: Manager, connections: Connections, settings: BrakeSettings) -> "DeletionBrake":
        """Return the brake on the caches of a manager."""

        def one(resource: Any, name: str) -> Informer[JsonObject]:
            # Not required: an installation with the rights of an earlier version can't read them.
            return manager.informer(resource, field_selector=f"metadata.name={name}", required=False)

        return cls(
            settings,
            manager.clock,
            connections,
            manager.informer(KYMAS, indexes=[DELETING_KYMAS]),
            manager.informer(MANIFESTS, indexes=[DELETING_MANIFESTS, MANIFESTS_BY_KYMA]),
            manager.informer(MODULE_CONFIGS, namespace=None, indexes=[MODULE_CONFIGS_BY_KYMA]),
            manager.informer(SYNC_RESOURCES, namespace=None, indexes=[DELETING_SYNC_RESOURCES, EMPTIED_SYNC_RESOURCES]),
            {f"CRD {each.plural_name}": one(CUSTOM_RESOURCE_DEFINITIONS, each.plural_name) for each in _WATCHED_CRDS}
            | {f"Namespace {names.KCP_NAMESPACE}": one(NAMESPACES, names.KCP_NAMESPACE)},
        )

    def of_text(self, resource: SyncResource) -> Brake:
        """Return what the rule says of a text that has no objects any more, while the SKR has some."""
        kyma, now = resource.spec.kyma, self.clock.now()
        began = resource.status.emptied_at or now.replace(microsecond=0)
        emptied = self.sync_resources.by_index(EMPTIED_SYNC_RESOURCES, resource.spec.module)
        at_once = timedelta(seconds=AT_ONCE_SECONDS)
        near = {each.spec.kyma for each in emptied if abs((each.status.emptied_at or now) - began) < at_once}
        seen = Deletion(
            kyma=kyma,
            began=began,
            continued_at=self._beginning(kyma, resource).continued_at,
            clusters=len(self.kymas.cache),
            deleting=len(near | {kyma}),
            was_held=_is_held(resource),
        )
        return judge(seen, self.settings)

    def of(self, kyma: str, item: Kyma | Manifest | SyncResource, *, has_objects: bool) -> Brake:
        """Return what the rule says of the deletion of an object. `has_objects`: some may be in the SKR."""
        if not item.metadata.being_deleted:
            return RELEASED
        now = self.clock.monotonic()
        beginning = self._beginning(kyma, item)
        missing_for = self.connections.missing_for(kyma, now=now) if has_objects else None
        is_of_users = self._is_of_users(item)
        owner = self.kymas.get(ObjectKey(names.KCP_NAMESPACE, kyma))
        deleted = owner if owner is not None and owner.metadata.being_deleted else item
        seen = Deletion(
            kyma=kyma,
            began=beginning.at,
            continued_at=beginning.continued_at,
            crds=self._removed(item),
            clusters=len(self.kymas.cache),
            deleting=0 if is_of_users else self._clusters_with_deletions(now, beginning),
            without_access=self._clusters_without_access(now) if missing_for is not None else 0,
            missing_for=missing_for,
            was_held=not is_of_users and _is_held(deleted),
        )
        return judge(seen, self.settings)

    def _is_of_users(self, item: Kyma | Manifest | SyncResource) -> bool:
        """Tell whether users have removed the module, or the Module CR that a SyncResource was made from."""
        if not isinstance(item, SyncResource):
            return _by_users(item.metadata)
        configs = self.module_configs.by_index(MODULE_CONFIGS_BY_KYMA, item.spec.kyma)
        return any(each.spec.module == item.spec.module and _by_users(each.metadata) for each in configs)

    def _removed(self, item: Kyma | Manifest | SyncResource) -> tuple[str, ...]:
        """Name what is being deleted in KCP, or was and is there again, so that this object is deleted with it."""
        present = ((name, each["metadata"]) for name, informer in self.parents.items() for each in informer.list())
        found = [name for name, metadata in present if metadata.get("deletionTimestamp")]
        if isinstance(item, SyncResource):
            crd = f"CRD {MODULE_CONFIGS.plural_name}"
            found += [crd for each in self.parents[crd].list() if is_of_former_crd(item.metadata, each)]
        return tuple(dict.fromkeys(found))

    def _beginning(self, kyma: str, item: Kyma | Manifest | SyncResource) -> "_Beginning":
        """Return since when an object is deleted, with its Kyma or alone, and until when an operator continues that.

        A module team writes the annotations of its SyncResources: they count only where the Kyma is gone.
        """
        owner = self.kymas.get(ObjectKey(names.KCP_NAMESPACE, kyma))
        until = continued_at(owner.metadata if owner is not None else item.metadata)
        if owner is not None and owner.metadata.deletion_timestamp is not None:
            return _Beginning("", owner.metadata.deletion_timestamp, until)
        if not isinstance(item, SyncResource):
            return _Beginning("", removed_since(item.metadata) or item.metadata.deletion_timestamp, until)
        module = item.spec.module
        manifests = (each.metadata for each in self.manifests.by_index(MANIFESTS_BY_KYMA, kyma))
        removals = (removed_since(each) for each in manifests if each.labels.get(names.MODULE_NAME) == module)
        return _Beginning(module, next(filter(None, removals), item.metadata.deletion_timestamp), until)

    def _clusters_with_deletions(self, now: float, beginning: "_Beginning") -> int:
        """Return in how many clusters such a deletion is under way; what many have is not counted each time."""
        counted_at, counts = self._deleting
        if counts.clusters <= self.settings.min_clusters or now - counted_at >= RECOUNT_SECONDS:
            counts = self._count()
            self._deleting = (now, counts)
        return len(counts.of.get((beginning.module, beginning.period), ()))

    def _count(self) -> "_Counts":
        counts = _Counts()
        kymas = self.kymas.by_index(DELETING_KYMAS, "")
        for item in kymas:
            ready = find(item.status.conditions, names.READY_CONDITION)
            if ready is None or ready.reason != DELETION_STUCK:
                counts.add(item.metadata.name, self._beginning(item.metadata.name, item))
        counted = {item.metadata.name for item in kymas}  # with all that they have
        for manifest in self.manifests.by_index(DELETING_MANIFESTS, ""):
            if (kyma := manifest.metadata.labels[names.KYMA_NAME]) not in counted:
                counts.add(kyma, self._beginning(kyma, manifest))
        for resource in self.sync_resources.by_index(DELETING_SYNC_RESOURCES, ""):
            if (kyma := resource.spec.kyma) not in counted and not self._is_of_users(resource):
                counts.add(kyma, self._beginning(kyma, resource))
        return counts

    def _clusters_without_access(self, now: float) -> int:
        if now - self._without_access[0] >= RECOUNT_SECONDS:
            reached = filter(was_reached, self.kymas.list())
            missing = (not self.connections.have_access(each.metadata.name) for each in reached)
            self._without_access = (now, sum(missing))
        return self._without_access[1]


@dataclass(frozen=True, slots=True)
class _Beginning:
    """When a deletion began; `module` is that of a SyncResource which is deleted without its Kyma."""

    module: str
    at: datetime | None
    continued_at: datetime | None

    @property
    def period(self) -> int:
        return int(self.at.timestamp()) // AT_ONCE_SECONDS if self.at is not None else 0


@dataclass(slots=True)
class _Counts:
    """The Kymas with deletions that no operator continues: by module, and by the periods that they are near to."""

    of: dict[tuple[str, int], set[str]] = field(default_factory=dict)
    clusters: int = 0

    def add(self, kyma: str, beginning: _Beginning) -> None:
        if is_continued(beginning.at, beginning.continued_at):
            return
        for period in range(beginning.period - 1, beginning.period + 2):
            found = self.of.setdefault((beginning.module, period), set())
            found.add(kyma)
            self.clusters = max(self.clusters, len(found))


def _is_held(item: Kyma | Manifest | SyncResource) -> bool:
    """Tell whether a status says that something is held: before its deletion that of a Kyma says it of a module."""
    ready = find(item.status.conditions, names.READY_CONDITION)
    is_going = not isinstance(item, Kyma) or item.status.state is State.DELETING
    return is_going and ready is not None and ready.reason == DELETION_HELD


def is_emptied(resource: SyncResource) -> bool:
    """Tell whether a SyncResource has objects in its SKR and none in its text, so that all of them are removed."""
    has_objects = "kind" in resource.spec.resource  # each of them names its kind
    return resource.spec.prune and bool(resource.status.synced) and not has_objects


def is_of_former_crd(metadata: ObjectMeta, crd: JsonObject) -> bool:
    """Tell whether an object is older than a CRD, and was deleted about when that was created again."""
    created, deleted = metadata.creation_timestamp, metadata.deletion_timestamp
    if created is None or deleted is None:
        return False
    since = datetime.fromisoformat(crd["metadata"]["creationTimestamp"])
    return created < since and deleted < since + GARBAGE_COLLECTION
