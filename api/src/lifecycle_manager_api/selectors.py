"""Label selectors (meta/v1 LabelSelector), and which labels they match."""

from collections.abc import Mapping
from typing import Annotated, Literal

from lifecycle_manager_api.cel import VALUES_FIT_OPERATOR
from lifecycle_manager_api.fields import ATOMIC_LIST, ATOMIC_MAP, checked_by
from lifecycle_manager_api.meta import Struct


class LabelSelectorRequirement(Struct, frozen=True, kw_only=True):
    """One demand on a label: that it has one of some values, or none of them, or that it is there at all."""

    key: str
    """The label."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """What is asked of it. NotIn is also met by objects without the label."""
    values: Annotated[tuple[str, ...], ATOMIC_LIST] = ()
    """The values for In and NotIn; none for the others."""

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether labels meet the demand."""
        match self.operator:
            case "In":
                return labels.get(self.key) in self.values
            case "NotIn":
                return labels.get(self.key) not in self.values
            case "Exists":
                return self.key in labels
            case "DoesNotExist":
                return self.key not in labels


class LabelSelector(Struct, frozen=True, kw_only=True):
    """Which objects are meant, by their labels: those that meet every demand. An empty selector means all of them."""

    match_labels: Mapping[str, str] = {}
    """Labels that have to be there with just these values."""
    match_expressions: Annotated[
        tuple[Annotated[LabelSelectorRequirement, checked_by(VALUES_FIT_OPERATOR)], ...], ATOMIC_LIST
    ] = ()
    """Further demands."""

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether an object with these labels is meant."""
        return all(labels.get(key) == value for key, value in self.match_labels.items()) and all(
            each.matches(labels) for each in self.match_expressions
        )


class KymaSelector(LabelSelector, frozen=True, kw_only=True):
    """Selects Kymas by their labels. Unlike an empty LabelSelector, an empty KymaSelector selects none.

    A module with a selector is restricted; a selector that says nothing must not release it to every cluster.
    """

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether the selector has requirements and the labels of a Kyma meet all of them."""
        return bool(self.match_labels or self.match_expressions) and super().matches(labels)


Selector = Annotated[LabelSelector, ATOMIC_MAP]
