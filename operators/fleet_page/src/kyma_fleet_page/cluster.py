"""What the page of one cluster shows: its explanation, which is that of `klm explain`, Events and the last change."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from lifecycle_manager.contract.fleet import WORST_FIRST
from lifecycle_manager_api import Condition, Kyma, KymaModuleStatus


class ExplanationNode(Protocol):
    """A link of the explanation, with what is below it."""

    @property
    def mark(self) -> str:
        """Whether it is in order: ok, wait, bad or note."""
        ...

    @property
    def title(self) -> str:
        """What it is about."""
        ...

    @property
    def text(self) -> str:
        """What is found there."""
        ...

    @property
    def details(self) -> Sequence[str]:
        """Lines below the text."""
        ...

    @property
    def children(self) -> "Sequence[ExplanationNode]":
        """What is below it."""
        ...

    @property
    def is_open(self) -> bool:
        """Whether what is below it is shown at first."""
        ...

    @property
    def notable(self) -> "Sequence[ExplanationNode]":
        """What is below it and is shown by itself."""
        ...

    @property
    def in_order(self) -> "Sequence[ExplanationNode]":
        """What is below it and is folded, since it is in order."""
        ...


class HistoryEntry(Protocol):
    """One thing that was done, by whom."""

    @property
    def at(self) -> datetime:
        """When it was done."""
        ...

    @property
    def by(self) -> str:
        """Who did it."""
        ...

    @property
    def what(self) -> str:
        """What was done."""
        ...


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """A Kubernetes Event: the last time, how often, and about which object."""

    at: datetime
    count: int
    type: str
    reason: str
    about: str
    note: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a cluster is as it is.

    `commands` are what to do next, `hidden` the kinds that the user may not list, `since` when the last condition of
    each module changed.
    """

    tree: ExplanationNode
    commands: Sequence[str] = ()
    hidden: Sequence[str] = ()
    since: Mapping[str, datetime] = field(default_factory=dict)


def modules_of(kyma: Kyma) -> Sequence[KymaModuleStatus]:
    """Return the modules of a Kyma, those that are not ready first."""
    return sorted(kyma.status.modules, key=lambda each: (WORST_FIRST.index(each.state), each.name))


def conditions_of(kyma: Kyma) -> Sequence[Condition]:
    """Return the conditions of a Kyma, those that do not hold first."""
    return sorted(kyma.status.conditions, key=lambda each: (each.status == "True", each.type))
