"""What the settings of all domains have in common, and how their options are listed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from pydantic import BaseModel, ConfigDict


class DomainSettings(BaseModel):
    """The settings of a domain. Options set its fields by their names, code by those of the fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_by_name=True, validate_by_alias=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """An option of `klm run`: its name without dashes, its default as people write it, and the schema of values."""

    name: str
    help: str
    default: str
    schema: Mapping[str, Any]


def options_of(kind: type[DomainSettings]) -> Iterator[Option]:
    """Yield the options of some settings, and of the settings in them."""
    schemas, defaults = kind.model_json_schema()["properties"], texts_of(kind())
    for field in kind.model_fields.values():
        name = field.validation_alias
        if isinstance(name, str):
            yield Option(name=name, help=field.description or "", default=defaults[name], schema=schemas[name])
        elif _is_settings(field.annotation):
            yield from options_of(field.annotation)


def texts_of(settings: DomainSettings) -> dict[str, str]:
    """Return the values of options as people write them."""
    found, values = dict[str, str](), settings.model_dump(mode="json")
    for name, field in type(settings).model_fields.items():
        if isinstance(field.validation_alias, str):
            found[field.validation_alias] = _text(values[name])
        elif _is_settings(field.annotation):
            found |= texts_of(getattr(settings, name))
    return found


def nested(kind: type[DomainSettings], values: Mapping[str, object]) -> dict[str, object]:
    """Return what some settings are made of: their part of the values of all options."""
    found: dict[str, object] = {}
    for name, field in kind.model_fields.items():
        if _is_settings(field.annotation):
            found[name] = nested(field.annotation, values)
        elif field.validation_alias in values:
            found[str(field.validation_alias)] = values[str(field.validation_alias)]
    return found


def _is_settings(kind: Any) -> TypeGuard[type[DomainSettings]]:
    return isinstance(kind, type) and issubclass(kind, DomainSettings)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ",".join(map(str, value))
    return "" if value is None else str(value)
