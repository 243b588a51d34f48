"""Validation rules that a schema cannot express: in CEL for API servers, and the same in Python for `validate`.

`holds` gets the value and, on an update, the old value (None on a creation). A rule that uses `oldSelf` is evaluated on
updates only, as in an API server.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class CelRule(NamedTuple):
    """A validation rule, and the message for objects that violate it."""

    rule: str
    message: str
    holds: Callable[[Any, Any], bool]

    @property
    def on_updates_only(self) -> bool:
        """Tell whether the rule compares with the old value."""
        return "oldSelf" in self.rule


def _mandatory_or_channels(spec: Mapping[str, Any], _old: Any) -> bool:
    return ("mandatory" in spec) != ("channels" in spec)


def _values_fit_operator(requirement: Mapping[str, Any], _old: Any) -> bool:
    return (requirement["operator"] in {"In", "NotIn"}) == bool(requirement.get("values"))


def _secret_where_verified(spec: Mapping[str, Any], _old: Any) -> bool:
    return spec.get("verify", "off") == "off" or bool(spec.get("verificationSecret"))


IMMUTABLE = CelRule(
    "self == oldSelf",
    "can't be changed; delete the object and create another one",
    lambda value, old: bool(value == old),
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
SECRET_WHERE_VERIFIED = CelRule(
    "!has(self.verify) || self.verify == 'off' || (has(self.verificationSecret) && self.verificationSecret != '')",
    "verify needs a verificationSecret with the keys that are trusted",
    _secret_where_verified,
)

BY_RULE = {each.rule: each for each in (IMMUTABLE, MANDATORY_OR_CHANNELS, SECRET_WHERE_VERIFIED, VALUES_FIT_OPERATOR)}
