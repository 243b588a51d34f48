"""The resources, field by field, from their CRDs."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from lifecycle_manager_api.crds import KINDS, crd_for
from tools.documentation.markdown import code, escaped, table

EXAMPLES = Path("docs/examples")


class Field(NamedTuple):
    """One field: its path, its type with all that the API server checks, and its text."""

    path: str
    type: str
    text: str


def page() -> str:
    """Return the page."""
    return "# Resources\n\nGroup `operator.kyma-project.io`. `kubectl explain` shows the same texts.\n\n" + "".join(
        _section(crd_for(kind)) for kind in KINDS
    )


def items() -> Iterator[tuple[str, str]]:
    """Yield all kinds and fields with their texts."""
    for kind in KINDS:
        crd = crd_for(kind)
        yield kind.__name__, _schema(crd).get("description", "")
        yield from ((f"{kind.__name__}.{each.path}", each.text) for each in _fields_of(crd))


def _section(crd: Mapping[str, Any]) -> str:
    names, version = crd["spec"]["names"], crd["spec"]["versions"][0]
    rows = [(code(each.path), escaped(each.type), escaped(each.text)) for each in _fields_of(crd)]
    columns = [each["name"] for each in version.get("additionalPrinterColumns", ())]
    rules = [(code(rule["rule"]), escaped(rule.get("message", ""))) for rule in _rules(_schema(crd))]
    shown = f" Columns: {', '.join(columns)}." if columns else ""
    text = f"## {names['kind']}\n\n`{version['name']}`, {names['plural']}. {_schema(crd)['description']}{shown}\n\n"
    text += table(("field", "type", "meaning"), rows) + "\n"
    if rules:
        text += table(("rule (CEL)", "refused with"), rules) + "\n"
    example = EXAMPLES / re.sub(r"(?<=[a-z])(?=[A-Z])", "-", f"{names['kind']}.yaml").lower()
    return text + (f"```yaml\n{example.read_text().strip()}\n```\n\n" if example.exists() else "")


def _schema(crd: Mapping[str, Any]) -> Mapping[str, Any]:
    schema: Mapping[str, Any] = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def _fields_of(crd: Mapping[str, Any]) -> Iterator[Field]:
    for part in ("spec", "status"):
        if part in _schema(crd).get("properties", {}):
            yield from _fields({"properties": {part: _schema(crd)["properties"][part]}}, "")


def _fields(schema: Mapping[str, Any], path: str) -> Iterator[Field]:
    required = schema.get("required", ())
    for name, inner in schema.get("properties", {}).items():
        at = f"{path}.{name}".lstrip(".")
        yield Field(at, _type(inner, is_required=name in required), inner.get("description", ""))
        yield from _fields(inner, at)
        yield from _fields(inner.get("items", {}), f"{at}[]")
        if isinstance(of_values := inner.get("additionalProperties"), Mapping):
            yield from _fields(of_values, f"{at}.*")


def _type(schema: Mapping[str, Any], *, is_required: bool) -> str:
    kind = schema.get("type", "any")
    if kind == "array":
        kind = f"list of {schema.get('items', {}).get('type', 'any')}"
    elif isinstance(of_values := schema.get("additionalProperties"), Mapping):
        kind = f"map of {of_values.get('type', 'any')}"
    limits = {
        "enum": "one of {}",
        "default": "default {}",
        "format": "{}",
        "pattern": "pattern `{}`",
        "minimum": "at least {}",
        "maximum": "at most {}",
        "minLength": "at least {} characters",
        "maxLength": "at most {} characters",
        "minItems": "at least {} items",
        "maxItems": "at most {} items",
        "maxProperties": "at most {} entries",
    }
    checks = [_counted(text.format(_shown(schema[key]))) for key, text in limits.items() if key in schema]
    return ", ".join([kind, *(["required"] if is_required else []), *checks])


def _counted(limit: str) -> str:
    """Return a limit with its noun in the singular where it is one."""
    return limit.replace(" 1 entries", " 1 entry").removesuffix("s") if re.search(r" 1 \w+s$", limit) else limit


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _rules(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from schema.get("x-kubernetes-validations", ())
    inner = [*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")]
    for each in inner:
        if isinstance(each, Mapping):
            yield from _rules(each)
