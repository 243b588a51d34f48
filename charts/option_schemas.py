"""The JSON schema of an option of `klm run`, from its type: Helm refuses a value by its name before it is installed."""

from datetime import timedelta
from types import UnionType
from typing import Annotated, Any, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le

from lifecycle_manager.contract.options import OptionField, Seconds

DURATION = r"^(0|([0-9]+(\.[0-9]+)?(ms|s|m|h))+)$"
BOUNDS = {Ge: ("minimum", "ge"), Gt: ("exclusiveMinimum", "gt"), Le: ("maximum", "le")}


def option_schema(field: OptionField) -> dict[str, Any]:
    """Return the schema of the values that an option takes, without its description."""
    kind, metadata = _plain(field.type)
    if kind is bool:
        return {"type": "boolean"}
    if get_origin(kind) is Literal:
        return {"enum": list(get_args(kind))}
    if kind is timedelta or field.type == Seconds:
        return {"type": "string", "pattern": DURATION}
    if kind in {int, float}:
        bounds = {
            BOUNDS[type(each)][0]: getattr(each, BOUNDS[type(each)][1]) for each in metadata if type(each) in BOUNDS
        }
        return {"type": "integer" if kind is int else "number", **bounds}
    if get_origin(kind) is tuple and get_args(kind)[-1] is ...:
        return {"type": ["string", "array"], "items": {"type": "string"}}
    return {"type": ["string", "integer"]}


def _plain(kind: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return a type without what is annotated to it, and that; of one that may be absent, the other one."""
    metadata: tuple[Any, ...] = ()
    if get_origin(kind) is Annotated:
        kind, *rest = get_args(kind)
        metadata = tuple(rest)
    if get_origin(kind) is UnionType:
        kind = next(each for each in get_args(kind) if each is not type(None))
    return kind, metadata
