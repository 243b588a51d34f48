"""The namespaces of modules in KCP: where each module has its ModuleConfigs and SyncResources.

Without one of its own a module has them in the namespace of the Lifecycle Manager, beside all others. A namespace is a
module's own by the label `module-name`. While the module moves into another namespace, what it has in the former one
stays until the other one has taken over; so a former namespace has to be recognizable, too: it keeps its label, and the
annotation `retired` or its deletion says that the module leaves it. Nothing in a namespace without the label is acted
on: informers of both kinds are for all namespaces (`namespace=None`), and whoever uses them asks the assignment.
`assigned` holds the rules; it is pure.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar

import msgspec

from kube_runtime import Change, Informer, Manager, Resource
from lifecycle_manager.contract.conditions import APPLIED, VALID
from lifecycle_manager_api import ModuleConfig, ObjectMeta, SyncResource, find, names

MODULE = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
RESERVED = frozenset({names.KCP_NAMESPACE, names.KCP_LEASE_NAMESPACE})


class Namespace(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A core/v1 Namespace; of it only the metadata."""

    GROUP: ClassVar[str] = ""
    VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "Namespace"
    PLURAL: ClassVar[str] = "namespaces"
    NAMESPACED: ClassVar[bool] = False

    metadata: ObjectMeta

    @property
    def module(self) -> str:
        """The module in the label."""
        return self.metadata.labels.get(names.MODULE_NAME, "")

    @property
    def is_former(self) -> bool:
        """Whether the module leaves this namespace."""
        return self.metadata.being_deleted or self.metadata.annotations.get(names.RETIRED) == "true"


LABELLED_NAMESPACES = Resource.of(Namespace)


class Standing(Enum):
    """What a namespace is to the module of an object in it."""

    CURRENT = "current"
    """The namespace that the module has."""
    FORMER = "former"
    """One that the module had, and in which it may still have objects."""
    OTHER_MODULE = "other module"
    """That of another module."""
    UNKNOWN = "unknown"
    """No namespace of a module."""


class RefusedReason(Enum):
    """Why the label of a namespace has no effect."""

    RESERVED = "Reserved"
    NAME_INVALID = "ModuleNameInvalid"
    DUPLICATE = "Duplicate"


@dataclass(frozen=True, slots=True)
class Assignment:
    """Which module has which namespace.

    - `current`: the own namespaces of modules, by module
    - `modules`: the modules by the namespaces that they have or had
    - `deleted`: those of them that are being deleted
    - `refused`: namespaces whose label has no effect
    """

    current: Mapping[str, str] = field(default_factory=dict)
    modules: Mapping[str, str] = field(default_factory=dict)
    deleted: frozenset[str] = frozenset()
    refused: Mapping[str, RefusedReason] = field(default_factory=dict)

    def namespace_of(self, module: str) -> str:
        """Return the namespace in which a module has its ModuleConfigs and SyncResources."""
        return self.current.get(module, names.KCP_NAMESPACE)

    def standing(self, part: ModuleConfig | SyncResource) -> Standing:
        """Return what the namespace of an object is to its module."""
        namespace, module = part.metadata.namespace, part.spec.module
        if namespace == self.namespace_of(module):
            return Standing.CURRENT
        owner = module if namespace == names.KCP_NAMESPACE else self.modules.get(namespace)
        if owner is None:
            return Standing.UNKNOWN
        return Standing.FORMER if owner == module else Standing.OTHER_MODULE

    def holds(self, part: ModuleConfig | SyncResource) -> bool:
        """Tell whether an object is in a namespace that its module has or had."""
        return self.standing(part) in (Standing.CURRENT, Standing.FORMER)


def assigned(namespaces: Iterable[Namespace]) -> Assignment:
    """Return which module has which of the labelled namespaces.

    Of several namespaces for one module the oldest counts. The others are refused, so that a later label takes nothing
    from a module.
    """
    current: dict[str, str] = {}
    modules: dict[str, str] = {}
    refused: dict[str, RefusedReason] = {}
    labelled = sorted(namespaces, key=_age)
    for each in labelled:
        name, module = each.metadata.name, each.module
        if name in RESERVED:
            refused[name] = RefusedReason.RESERVED
        elif MODULE.fullmatch(module) is None:
            refused[name] = RefusedReason.NAME_INVALID
        elif each.is_former:
            modules[name] = module
        elif module in current:
            refused[name] = RefusedReason.DUPLICATE
        else:
            current[module], modules[name] = name, module
    deleted = frozenset(each.metadata.name for each in labelled if each.metadata.being_deleted)
    return Assignment(current, modules, deleted, refused)


def is_applied(resource: SyncResource) -> bool:
    """Tell whether a SyncResource is applied as it is now, so that it has the objects in its status."""
    found = (find(resource.status.conditions, each) for each in (VALID, APPLIED))
    return (
        not resource.metadata.being_deleted
        and resource.status.observed_generation == resource.metadata.generation
        and all(each is not None and each.status == "True" for each in found)
    )


def _age(namespace: Namespace) -> tuple[str, str]:
    created = namespace.metadata.creation_timestamp
    return (created.isoformat() if created is not None else "", namespace.metadata.name)


def assignment_changed(change: Change[Namespace]) -> bool:
    """Tell whether a namespace may be another module's now, or is left by its module."""
    old, new = change.old, change.new
    return old is None or new is None or (old.module, old.is_former) != (new.module, new.is_former)


def modules_of(change: Change[Namespace]) -> frozenset[str]:
    """Return the modules that a change of a namespace concerns."""
    return frozenset(each.module for each in (change.old, change.new) if each is not None)


class ModuleNamespaces:
    """The present assignment, by the Namespaces in KCP."""

    def __init__(self, informer: Informer[Namespace]) -> None:
        self.informer = informer
        self._assignment: Assignment | None = None
        informer.on_change(self._forget)

    @classmethod
    def watched_by(cls, manager: Manager) -> "ModuleNamespaces":
        """Return the namespaces as an informer of a Manager has them."""
        return cls(manager.informer(LABELLED_NAMESPACES, label_selector=names.MODULE_NAME))

    def assignment(self) -> Assignment:
        """Return which module has which namespace now."""
        if self._assignment is None:
            self._assignment = assigned(self.informer.cache.list())
        return self._assignment

    def _forget(self, _change: Change[Namespace]) -> None:
        self._assignment = None
