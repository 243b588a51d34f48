"""Which of several sets in one SKR has an object. Pure functions.

An object in an SKR names its owner in KCP by annotations. It is deleted or handed over only by that owner, whatever an
inventory says.

SyncResources: an object belongs to the module whose Manifest has it, else to the first that claimed it. A claim is
recorded before the object is written; what a reconcile is about to record counts too, so of two at the same moment the
second sees the first.

Modules: several may share an object, such as a Namespace or a CRD. It stays as long as one module has it. It carries
the labels of the module that wrote it last; a module that gives it up hands it over. While the object carries the
labels of another module that manages it, it is left as it is: otherwise two modules would overwrite each other's
labels forever, each triggered by the other's write.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from kube_runtime import InventoryEntry, KubernetesObject, ObjectKey
from lifecycle_manager.contract.former import is_former, marks
from lifecycle_manager.contract.resources import FIELD_MANAGER
from lifecycle_manager.object_set.inventory import DEFAULT_NAMESPACE, Identity, identities
from lifecycle_manager.object_set.protected import is_protected_entry
from lifecycle_manager_api import names

Place = tuple[str, str, str]
"""Group, kind and name of an object, in any namespace."""


class Claim(NamedTuple):
    """An object that a SyncResource or a Manifest has in the SKR of its Kyma.

    `created` and `owner` order the SyncResources; a Manifest comes before them.
    """

    entry: InventoryEntry
    created: str
    owner: str
    kind: str = "SyncResource"

    @property
    def since(self) -> tuple[str, str]:
        return self.created, self.owner


class ContestedObject(NamedTuple):
    """An object that a Manifest or another SyncResource has."""

    thing: KubernetesObject
    claim: Claim

    def __str__(self) -> str:
        return f"document {self.thing.index}: {self.thing} belongs to {self.claim.kind} {self.claim.owner}"


def conflicts(
    objects: Iterable[KubernetesObject],
    own: Collection[InventoryEntry],
    since: tuple[str, str],
    claims: Iterable[Claim],
) -> tuple[ContestedObject, ...]:
    """Return the objects that a Manifest or another SyncResource of the same Kyma has.

    `since` is when the SyncResource was created, and its name. An object that both have, as after a restore from two
    backups, belongs to the older one.
    """
    mine = identities(own)
    by_place: dict[Place, list[Claim]] = {}
    for claim in claims:
        by_place.setdefault((claim.entry.group, claim.entry.kind, claim.entry.name), []).append(claim)
    return tuple(
        ContestedObject(thing, claim)
        for thing in objects
        for claim in by_place.get(place_of(thing), ())
        if _same_namespace(thing, claim.entry) and ((claim.since < since) or claim.entry.identity not in mine)
    )


def claimed_earlier(
    entries: Iterable[InventoryEntry], since: tuple[str, str], claims: Iterable[Claim]
) -> tuple[InventoryEntry, ...]:
    """Return the entries that an older SyncResource of the same Kyma has too, as after a restore from two backups.

    What a Manifest has may not be written by it yet: it stays recorded, and who owns it says the object.
    """
    older = identities(claim.entry for claim in claims if claim.kind == "SyncResource" and claim.since < since)
    return tuple(each for each in entries if each.identity in older)


def place_of(thing: KubernetesObject) -> Place:
    """Return group, kind and name of a document."""
    return thing.api_version.rpartition("/")[0], thing.kind, thing.name


def by_place(entries: Iterable[InventoryEntry]) -> dict[Place, tuple[InventoryEntry, ...]]:
    """Return entries by their places; those of one place are in different namespaces."""
    found: dict[Place, tuple[InventoryEntry, ...]] = {}
    for each in entries:
        place = (each.group, each.kind, each.name)
        found[place] = (*found.get(place, ()), each)
    return found


def claim_key(kyma: str, group: str, kind: str, name: str) -> str:
    """Return the value of the index of claims: an object's Kyma, kind and name, in any namespace."""
    return f"{kyma}/{group}/{kind}/{name}"


def _same_namespace(thing: KubernetesObject, entry: InventoryEntry) -> bool:
    """Tell whether a document is the object of an entry; an entry without namespace is cluster-scoped."""
    return not entry.namespace or entry.namespace == (thing.namespace or DEFAULT_NAMESPACE)


MAX_LABEL_LENGTH = 63
OWN_LABELS = {names.MANAGED_BY: names.LIFECYCLE_MANAGER}
DISCLAIMER = "DO NOT EDIT: this object belongs to a Kyma module, and changes of what the module contains are reverted."


class SetOwner(NamedTuple):
    """The resource in KCP that a set of objects belongs to, and the module of both.

    `is_module`: it installs the module itself, as a Manifest does; its objects then have upstream's labels and
    annotation of a module.
    """

    key: ObjectKey
    module: str
    is_module: bool = False

    @property
    def field_manager(self) -> str:
        return FIELD_MANAGER

    @property
    def former_managers(self) -> Collection[str]:
        return marks().field_managers

    @property
    def all_labels(self) -> dict[str, str]:
        return OWN_LABELS | {names.WATCHED_BY: "kyma"} | self.labels

    @property
    def labels(self) -> dict[str, str]:
        """What names the owner, or its module, in the labels of its objects."""
        labels = {names.MODULE_NAME: self.module}
        if self.is_module:
            component = self.key.name[:MAX_LABEL_LENGTH].rstrip("-.")
            labels |= {names.PART_OF: "Kyma", names.COMPONENT: component}
        return labels

    @property
    def annotations(self) -> dict[str, str]:
        """What names the owner on its objects, and says to people that it is not theirs."""
        annotations = {names.OWNED_BY: str(self.key)}
        return annotations | {names.DISCLAIMER: DISCLAIMER} if self.is_module else annotations

    def owns(self, entry: InventoryEntry, live: Mapping[str, Any]) -> bool:
        """Tell whether an object in an SKR may be deleted for this owner.

        It names its owner and no uid: one that was restored from a backup has another one than it had.
        """
        metadata = live["metadata"]
        labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
        if is_protected_entry(entry):
            return False
        if labels.get(names.MANAGED_BY) == names.LIFECYCLE_MANAGER:
            return bool(annotations.get(names.OWNED_BY) == str(self.key))
        return is_former(live) and former_owner(live) == str(self.key)

    def is_free(self, live: Mapping[str, Any] | None) -> bool:
        """Tell whether an object in the inventory of this owner is known to have no mark of any owner.

        One that was released lacks the label alone. One that may not be read stays what it was taken for.
        """
        return live is not None and former_owner(live) is None


class OwnObjects(NamedTuple):
    """The Lifecycle Manager itself as the owner of objects in an SKR: they name no resource in KCP."""

    field_manager: str
    former_managers: Collection[str]

    @property
    def all_labels(self) -> dict[str, str]:
        return OWN_LABELS

    @property
    def annotations(self) -> dict[str, str]:
        return {}

    def owns(self, _: InventoryEntry, live: Mapping[str, Any]) -> bool:
        return is_of_the_lifecycle_manager(live)


def is_of_the_lifecycle_manager(live: Mapping[str, Any]) -> bool:
    """Tell whether an object has the label of the Lifecycle Manager, of any owner or version."""
    return OWN_LABELS.items() <= (live["metadata"].get("labels") or {}).items() or is_former(live)


def former_owner(live: Mapping[str, Any]) -> str | None:
    """Return the owner, `namespace/name`, that an object of the former version names."""
    annotations = live["metadata"].get("annotations") or {}
    return annotations.get(names.OWNED_BY) or annotations.get(names.DEPRECATED_OWNED_BY)


@dataclass(frozen=True, slots=True)
class Holder:
    """Another module of the same SKR with its objects; `manages` them unless it is unmanaged or skipped.

    `created` is when its owner was. `is_changing`: its present version was not brought yet, and may have further ones.
    """

    owner: SetOwner
    has: frozenset[Identity]
    manages: bool = True
    created: datetime | None = None
    is_changing: bool = False

    @property
    def key(self) -> ObjectKey:
        return self.owner.key


def existed_before(
    looked_up: Mapping[InventoryEntry, Mapping[str, Any] | None], found_by_others: Collection[Identity]
) -> frozenset[Identity]:
    """Return which objects are the users' among those that a set is about to have and that exist.

    None stands for an object that may not be read: it is a user's until it turns out that it did not exist. One that
    another set has is a user's where that set has found it, so that it stays when the last of them is removed.
    """
    return frozenset(
        entry.identity
        for entry, live in looked_up.items()
        if live is None
        or entry.identity in found_by_others
        or not (live["metadata"].get("deletionTimestamp") or is_of_the_lifecycle_manager(live))
    )


def next_owners(released: Iterable[InventoryEntry], others: Iterable[Holder]) -> dict[InventoryEntry, Holder]:
    """Return the objects that a module gives up and another has, each with the module that gets it."""
    in_order = sorted(others, key=lambda other: (not other.manages, other.key))
    found = ((each, next((other for other in in_order if each.identity in other.has), None)) for each in released)
    return {entry: other for entry, other in found if other is not None}


def holders_of(entries: Iterable[InventoryEntry], others: Iterable[Holder]) -> tuple[ObjectKey, ...]:
    """Return the keys of the modules that have any of these objects."""
    wanted = identities(entries)
    return tuple(sorted(other.key for other in others if other.has & wanted))


def is_managed_by_another(entry: InventoryEntry, live: Mapping[str, Any], others: Iterable[Holder]) -> bool:
    """Tell whether an object carries the owner of another module that has it and manages it."""
    owner = (live["metadata"].get("annotations") or {}).get(names.OWNED_BY)
    return any(str(other.key) == owner and other.manages and entry.identity in other.has for other in others)
