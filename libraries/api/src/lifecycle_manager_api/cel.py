"""Validation rules that a schema cannot express: in CEL for API servers, and the same in Python for `validate`."""

from collections.abc import Mapping
from typing import Any

from kube_crds import CelRule


def _mandatory_or_channels(spec: Mapping[str, Any], _old: Any) -> bool:
    return ("mandatory" in spec) != ("channels" in spec)


def _values_fit_operator(requirement: Mapping[str, Any], _old: Any) -> bool:
    return (requirement["operator"] in {"In", "NotIn"}) == bool(requirement.get("values"))


def _secret_where_verified(spec: Mapping[str, Any], _old: Any) -> bool:
    return spec.get("verify", "off") == "off" or bool(spec.get("verificationSecret"))


NOT_REMAINING = CelRule(
    "self != 'remaining'",
    "remaining is the wave of the clusters that no wave selects; its rules are in spec.remaining",
    lambda value, _old: bool(value != "remaining"),
)
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

BY_RULE = {
    each.rule: each
    for each in (IMMUTABLE, MANDATORY_OR_CHANNELS, NOT_REMAINING, SECRET_WHERE_VERIFIED, VALUES_FIT_OPERATOR)
}
