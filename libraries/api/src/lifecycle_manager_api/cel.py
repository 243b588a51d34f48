"""Validation rules that a schema cannot express, in CEL for API servers."""

from kube_crds import CelRule

NOT_REMAINING = CelRule(
    "self != 'remaining'",
    "remaining is the wave of the clusters that no wave selects; its rules are in spec.remaining",
)
IMMUTABLE = CelRule("self == oldSelf", "can't be changed; delete the object and create another one")
MANDATORY_OR_CHANNELS = CelRule(
    "has(self.mandatory) != has(self.channels)", "exactly one of 'mandatory' or 'channels' must be specified"
)
VALUES_FIT_OPERATOR = CelRule(
    "(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",
    "In and NotIn need values, Exists and DoesNotExist have none",
)
SECRET_WHERE_VERIFIED = CelRule(
    "!has(self.verify) || self.verify == 'off' || (has(self.verificationSecret) && self.verificationSecret != '')",
    "verify needs a verificationSecret with the keys that are trusted",
)
