"""CustomResourceDefinitions, generated from msgspec structs: start with `definitions`."""

from kube_crds.conditions import Condition, Conditions, ConditionStatus, find, set_condition
from kube_crds.definitions import AGE, Column, CustomResource, crd_of, object_schema
from kube_crds.documentation import Undocumented, class_text, field_text, field_texts
from kube_crds.fields import (
    ATOMIC_LIST,
    ATOMIC_MAP,
    REQUIRED,
    REQUIRED_KEY,
    CelRule,
    checked_by,
    default,
    keyed_by,
    schema,
)
from kube_crds.meta import ObjectMetadata, OwnerReference, Struct
from kube_crds.schemas import FREE_FORM, schema_of

__all__ = [
    "AGE",
    "ATOMIC_LIST",
    "ATOMIC_MAP",
    "FREE_FORM",
    "REQUIRED",
    "REQUIRED_KEY",
    "CelRule",
    "Column",
    "Condition",
    "ConditionStatus",
    "Conditions",
    "CustomResource",
    "ObjectMetadata",
    "OwnerReference",
    "Struct",
    "Undocumented",
    "checked_by",
    "class_text",
    "crd_of",
    "default",
    "field_text",
    "field_texts",
    "find",
    "keyed_by",
    "object_schema",
    "schema",
    "schema_of",
    "set_condition",
]
