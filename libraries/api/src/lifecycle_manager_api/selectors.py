"""Label selectors (meta/v1 LabelSelector)."""

from collections.abc import Mapping
from typing import Annotated, Literal

from kube_crds import ATOMIC_LIST, ATOMIC_MAP, Struct, checked_by
from lifecycle_manager_api.cel import VALUES_FIT_OPERATOR


class LabelSelectorRequirement(Struct, frozen=True, kw_only=True):
    """A requirement on one label: that its value is in a list or not, or that the label exists or not."""

    key: str
    """Key of the label."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """The operator. NotIn also matches objects without the label."""
    values: Annotated[tuple[str, ...], ATOMIC_LIST] = ()
    """The values for In and NotIn; empty for Exists and DoesNotExist."""

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether labels meet the requirement."""
        match self.operator:
            case "In":
                return labels.get(self.key) in self.values
            case "NotIn":
                return labels.get(self.key) not in self.values
            case "Exists":
                return self.key in labels
            case "DoesNotExist":
                return self.key not in labels

    def __str__(self) -> str:
        """As the parameter `labelSelector` of a request has it."""
        values = ",".join(self.values)
        match self.operator:
            case "In":
                return f"{self.key} in ({values})"
            case "NotIn":
                return f"{self.key} notin ({values})"
            case "Exists":
                return self.key
            case "DoesNotExist":
                return f"!{self.key}"


class LabelSelector(Struct, frozen=True, kw_only=True):
    """Selects objects by their labels: those that meet all requirements. An empty selector matches all objects."""

    match_labels: Mapping[str, str] = {}
    """Required labels with their values."""
    match_expressions: Annotated[
        tuple[Annotated[LabelSelectorRequirement, checked_by(VALUES_FIT_OPERATOR)], ...], ATOMIC_LIST
    ] = ()
    """Further requirements."""

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether an object with these labels is selected."""
        return all(labels.get(key) == value for key, value in self.match_labels.items()) and all(
            each.matches(labels) for each in self.match_expressions
        )

    def __str__(self) -> str:
        """As the parameter `labelSelector` of a request has it."""
        equal = (f"{key}={value}" for key, value in self.match_labels.items())
        return ",".join((*equal, *map(str, self.match_expressions)))


class KymaSelector(LabelSelector, frozen=True, kw_only=True):
    """Selects Kymas by their labels. Unlike an empty LabelSelector, an empty KymaSelector selects none.

    A release with a selector is restricted: an empty selector must not offer the module to every cluster.
    """

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether the selector has requirements and the labels of a Kyma meet all of them."""
        return bool(self.match_labels or self.match_expressions) and super().matches(labels)


Selector = Annotated[LabelSelector, ATOMIC_MAP]
