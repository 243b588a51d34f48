"""What the core has to know of a former Lifecycle Manager: nothing, unless a distribution says so by an entry point.

`extras/takeover` does, for the one in Go. Where it is not installed, `Takeover` is as it stands here.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from lifecycle_manager_api import names

if TYPE_CHECKING:
    from kube_runtime import Client, InventoryEntry, Manager, Sharding
    from kyma_certs import CAs
    from lifecycle_manager_api import Condition, Kyma

T = TypeVar("T")
GROUP = "lifecycle_manager.takeover"


class OptionsByKind(Protocol):
    """The settings of each domain, by their class."""

    def __getitem__(self, kind: type[T], /) -> T: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FormerMarks:
    """By what the former version's objects are recognized.

    - `managed_by`: the value of the label `managed-by` on its objects in SKRs
    - `field_managers`, `watcher_field_managers`: what applied the objects of modules, and those of the Watcher
    - `conditions`: types with the reason by which a condition is its own, whatever the status
    - `watcher_objects`: those of its Watcher that this version's has no more
    """

    managed_by: str | None = None
    field_managers: frozenset[str] = frozenset()
    watcher_field_managers: frozenset[str] = frozenset()
    finalizers: frozenset[str] = frozenset()
    conditions: frozenset[tuple[str, str]] = frozenset()
    watcher_objects: "tuple[InventoryEntry, ...]" = ()


class Takeover:
    """What is done about a former version."""

    settings: tuple[type[Any], ...] = ()
    """Its options of `klm run`."""

    def marks(self) -> FormerMarks:
        return FormerMarks()

    def arguments(self, given: Sequence[str]) -> tuple[list[str], list[str]]:
        """Return the arguments of `klm run` for this version, and a warning for each that has no effect here."""
        return [*given], []

    def objections(self, _options: OptionsByKind) -> Iterator[str]:
        """Yield why these options can't go together."""
        yield from ()

    def sharding(self, _options: OptionsByKind, replicas: "Sharding") -> "Sharding":
        """Return how the Kymas are shared with the former version; by default only among replicas."""
        return replicas

    def setup(self, _manager: "Manager", _kcp: "Client") -> "Callable[[Kyma], bool] | None":
        """Keep both versions from working on the same Kymas. Returns which Kymas are this version's; None for all."""
        return None

    async def find_cas(self, _kcp: "Client", _namespace: str) -> "CAs | None":
        """Return the CA of the former version in a namespace, to be adopted. Raises KubeError."""
        return None


@cache
def takeover() -> Takeover:
    """Return what is installed."""
    return next((cast("Takeover", each.load()) for each in entry_points(group=GROUP)), Takeover())


@cache
def marks() -> FormerMarks:
    return takeover().marks()


def is_former(found: "str | Condition | Mapping[str, Any]") -> bool:
    """Tell whether a finalizer, a condition, or an object in an SKR was set or made by the former version."""
    if isinstance(found, str):
        return found in marks().finalizers
    if isinstance(found, Mapping):
        label = (found["metadata"].get("labels") or {}).get(names.MANAGED_BY)
        return label is not None and label == marks().managed_by
    return (found.type, found.reason) in marks().conditions
