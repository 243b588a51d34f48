"""Label and field selectors, as requests name them."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from kube_simulation.kinds import Kind
from kube_simulation.refusals import Refused, bad_request
from kube_simulation.store import Stored

Selector = Callable[[Stored], bool]
_Requirement = Callable[[Mapping[str, str]], bool]
_KEY = r"[A-Za-z0-9][-A-Za-z0-9_./]*"
_REQUIREMENT = re.compile(
    rf"\s*(?:(?P<absent>!)\s*(?P<not_key>{_KEY})"
    rf"|(?P<set_key>{_KEY})\s+(?P<set>in|notin)\s*\((?P<values>[^)]*)\)"
    rf"|(?P<key>{_KEY})\s*(?:(?P<operator>==|=|!=)\s*(?P<value>[-A-Za-z0-9_.]*))?)\s*(?:,|$)"
)


def selector_of(kind: Kind, labels: str, fields: str) -> Selector | None:
    """Return what decides whether an object is meant, None where all are. Raises Refused for what is no selector."""
    requirements = _label_requirements(labels) if labels else []
    wanted = _field_requirements(kind, fields) if fields else []
    if not requirements and not wanted:
        return None

    def selects(stored: Stored) -> bool:
        for field, value, equal in wanted:
            if (_value_of(stored, field) == value) is not equal:
                return False
        if not requirements:
            return True
        found = stored.labels
        return all(holds(found) for holds in requirements)

    return selects


def _label_requirements(text: str) -> list[_Requirement]:
    requirements: list[_Requirement] = []
    position = 0
    while position < len(text):
        found = _REQUIREMENT.match(text, position)
        if found is None or found.end() == position:
            raise bad_request(f"unable to parse requirement: {text[position:]!r}")
        requirements.append(_requirement(found))
        position = found.end()
    return requirements


def _requirement(found: "re.Match[str]") -> _Requirement:
    if found["absent"]:
        return lambda labels, key=found["not_key"]: key not in labels  # type: ignore[misc]
    if found["set"]:
        values = frozenset(each.strip() for each in found["values"].split(","))
        key = found["set_key"]
        if found["set"] == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    key, value = found["key"], found["value"]
    if found["operator"] is None:
        return lambda labels: key in labels
    if found["operator"] == "!=":
        return lambda labels: labels.get(key) != value
    return lambda labels: labels.get(key) == value


def _field_requirements(kind: Kind, text: str) -> list[tuple[str, str, bool]]:
    requirements = []
    for part in text.split(","):
        found = re.fullmatch(r"\s*([^=!\s]+)\s*(==|=|!=)\s*(.*?)\s*", part)
        if found is None:
            raise bad_request(f"invalid selector: {part!r}; can't understand {part!r}")
        field, operator, value = found.groups()
        if field not in {"metadata.name", "metadata.namespace", *kind.selectable}:
            raise _unknown_field(kind, field)
        requirements.append((field, value, operator != "!="))
    return requirements


def _value_of(stored: Stored, field: str) -> str:
    """Return the value of a field, as a text; empty where the object has none."""
    if field.startswith("metadata."):
        return stored.name if field == "metadata.name" else stored.namespace
    found: Any = stored.document()
    for part in field.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return str(found or "")


def _unknown_field(kind: Kind, field: str) -> Refused:
    if kind.custom:
        return bad_request(f"field label not supported: {field}")
    return bad_request(f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"')
