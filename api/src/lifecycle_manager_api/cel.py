"""The rules that a schema alone can't say: in CEL for API servers, and the same in Python for `validate`.

`holds` gets the value and, at an update, the value before it (None at a creation). A rule that speaks of `oldSelf` is
evaluated at updates only, as an API server does it.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class CelRule(NamedTuple):
    """A validation rule, and what a user is told whose object breaks it."""

    rule: str
    message: str
    holds: Callable[[Any, Any], bool]

    @property
    def at_updates_only(self) -> bool:
        """Tell whether the rule compares with the value before."""
        return "oldSelf" in self.rule


def _mandatory_or_channels(spec: Mapping[str, Any], _before: Any) -> bool:
    return ("mandatory" in spec) != ("channels" in spec)


def _values_fit_operator(requirement: Mapping[str, Any], _before: Any) -> bool:
    return (requirement["operator"] in {"In", "NotIn"}) == bool(requirement.get("values"))


IMMUTABLE = CelRule(
    "self == oldSelf",
    "can't be changed; delete the object and create another one",
    lambda value, before: bool(value == before),
)
MANDATORY_OR_CHANNELS = CelRule(
    "has(self.mandatory) != has(self.channels)",
    "exactly one of 'mandatory' or 'channels' must be specified",
    _mandatory_or_channels,
)
VALUES_FIT_OPERATOR = CelRule(
    "(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",
    "In and NotIn need values, Exists and DoesNotExist have none",
    _values_fit_operator,
)

BY_RULE = {each.rule: each for each in (IMMUTABLE, MANDATORY_OR_CHANNELS, VALUES_FIT_OPERATOR)}
