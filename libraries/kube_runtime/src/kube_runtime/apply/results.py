"""The outcome of applying a set of objects."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from kube_runtime.apply.objects import Identity, InventoryEntry
from kube_runtime.exceptions import (
    ClusterUnreachable,
    KubeError,
    ObjectUnreadable,
    ResponseInvalid,
    ServerUnavailable,
    without_frames,
)
from kube_runtime.resource import JsonObject

Action = Literal["created", "changed", "unchanged", "failed", "pruned", "kept", "released", "held"]
NoteExisting = Callable[[Mapping[InventoryEntry, JsonObject | None]], Awaitable[Collection[Identity]]]
"""Takes note of objects that exist, None for one that can't be read; returns all that existed before the set."""


@dataclass(frozen=True, slots=True)
class ObjectOutcome:
    """What happened to one object.

    - `created`, `changed`, `unchanged`: it is in its desired state; `live` is the object
    - `failed`: `error` says why, `cause` is the exception
    - `pruned`: it left the set and was deleted; while it still exists, `live` shows it
    - `kept`: it left the set and stays for now: another object failed, or has to be deleted first
    - `released`: it left the set and is not ours any more, as it lost our marks; or the set has it in another group
      in which the server serves the same object
    - `held`: it left the set and stays, as it contains objects of others: `contents` names them

    `index` is the document that the object came from, None for one that only the inventory names. `changed_by` is the
    field manager that had written the object last before it was `changed`, as far as its managedFields say.
    """

    entry: InventoryEntry
    index: int | None
    action: Action
    error: str | None = None
    live: JsonObject | None = field(default=None, repr=False)
    cause: KubeError | None = field(default=None, repr=False)
    changed_by: str = ""
    contents: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.cause is not None:
            without_frames(self.cause)


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """The outcomes in the order of the objects, pruned ones last; and what is in the cluster now and is ours."""

    outcomes: tuple[ObjectOutcome, ...]
    inventory: tuple[InventoryEntry, ...]

    @property
    def failed(self) -> tuple[ObjectOutcome, ...]:
        """Return the outcomes that are failures."""
        return tuple(outcome for outcome in self.outcomes if outcome.error is not None)

    @property
    def changed(self) -> bool:
        """Tell whether anything in the cluster is different now."""
        return any(outcome.action in {"created", "changed", "pruned"} for outcome in self.outcomes)

    @property
    def held(self) -> tuple[ObjectOutcome, ...]:
        """Return the outcomes of objects that stay, as they contain objects of others."""
        return tuple(outcome for outcome in self.outcomes if outcome.action == "held")

    @property
    def first_failure(self) -> Exception | None:
        """The exception of the first object that failed."""
        return next((each.cause for each in self.failed if each.cause is not None), None)

    def raise_first_failure(self) -> None:
        """Raise the exception of the first object that failed, if one did."""
        if self.first_failure is not None:
            raise self.first_failure


def is_there(removed: ObjectOutcome) -> bool:
    """Tell whether an object that was to be deleted is still in the cluster, or may be."""
    return removed.live is not None or removed.error is not None or removed.action == "kept"


def left_over_by(applied: Iterable[ObjectOutcome], inventory: Iterable[InventoryEntry]) -> list[InventoryEntry]:
    named = {outcome.entry.identity for outcome in applied}
    return [entry for entry in inventory if entry.identity not in named]


def inventory_after(
    applied: Iterable[ObjectOutcome], removed: Iterable[ObjectOutcome], known: set[Identity]
) -> tuple[InventoryEntry, ...]:
    """Return what is in the cluster and ours, and what may be: a write without an answer may have been done."""
    there = [
        outcome.entry
        for outcome in applied
        if outcome.error is None or outcome.entry.identity in known or _may_be_done(outcome.cause)
    ]
    staying = [outcome.entry for outcome in removed if is_there(outcome)]
    return tuple(sorted({*there, *staying}))


def _may_be_done(cause: KubeError | None) -> bool:
    if isinstance(cause, ResponseInvalid):
        return not isinstance(cause, ObjectUnreadable)  # it is a document that was not sent
    return isinstance(cause, ClusterUnreachable | ServerUnavailable)
