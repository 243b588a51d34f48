"""Objects generated from the schemas: mostly valid, some with a value that violates a rule."""

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

INT_OR_STRING = "integer or string"

Schema = Mapping[str, Any]

TIMES = ("2026-11-01T12:00:00Z", "2026-11-01T12:00:00.123456Z", "2026-11-01T12:00:00+02:00")
BAD_TIMES = ("yesterday", "12:00", "2026-13-01T00:00:00Z", "2026-11-01")
ADDRESSES = ("https://example.com/a.yaml", "oci://registry/a", "http://[::1]:80/x?y#z")
BAD_ADDRESSES = ("", "not a uri", "example", "a b://c")
FORMATS = {"date-time": (TIMES, BAD_TIMES), "uri": (ADDRESSES, BAD_ADDRESSES)}

# What a YAML parser and an API server both take for plain text, so that only the rules decide.
PLAIN = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Co", "Cn")), max_size=12)
NAMES = st.from_regex(r"[a-z]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
WRONG_TYPES: Mapping[str, Any] = {
    "object": ["list"],
    "array": "text",
    "string": 7,
    "boolean": "true",
    "integer": "7",
    INT_OR_STRING: 1.5,
}


def documents(schema: Schema, part: str) -> st.SearchStrategy[Any]:
    """Generate one part, `spec` or `status`, of the objects of a kind."""
    values, fields = _values(schema["properties"][part]), schema["properties"][part].get("properties", {}).keys()
    return _released(values) if {"channels", "mandatory"} <= fields else values


def _released(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Let a ModuleReleaseMeta mostly have one of two exclusive fields, or hardly any would be valid."""
    channels = ({"channels": [{"channel": "fast", "version": "1.0.0"}]}, "mandatory")
    mandatory = ({"mandatory": {"version": "1.0.0"}}, "channels")
    combination = st.sampled_from((channels, channels, mandatory, mandatory, ({}, "")))

    def exclusive(pair: Any) -> Any:
        spec, (default, left_out) = pair
        if not isinstance(spec, dict):
            return spec
        return default | {name: each for name, each in spec.items() if name != left_out}

    return st.tuples(values, combination).map(exclusive)


def _values(schema: Schema) -> st.SearchStrategy[Any]:
    good = _good(schema)
    return st.integers(0, 39).flatmap(lambda dice: _bad(schema) if dice == 0 else good)


def _bad(schema: Schema) -> st.SearchStrategy[Any]:
    """Generate values that may break a rule, not values that do: what they do is what the test asks."""
    kind = schema.get("type", INT_OR_STRING)
    wrong = st.just(WRONG_TYPES[kind])
    if kind == INT_OR_STRING:
        return PLAIN | st.integers(-(2**31), 2**31 - 1) | st.booleans() | wrong
    if kind == "string":
        if "format" in schema:
            return st.sampled_from(FORMATS[schema["format"]][1]) | wrong
        return PLAIN | st.just("a" * (schema.get("maxLength", 20) + 1)) | wrong
    if kind == "integer":
        return st.integers(-(2**63), 2**63 - 1) | wrong
    return wrong


def _good(schema: Schema) -> st.SearchStrategy[Any]:
    match schema.get("type", INT_OR_STRING):
        case "integer or string":
            return _texts(schema) | st.integers(schema["minimum"], schema["maximum"])
        case "object":
            return _objects(schema)
        case "array":
            return st.lists(_values(schema["items"]), max_size=3)
        case "string":
            return _texts(schema)
        case "boolean":
            return st.booleans()
        case _:
            return st.integers(max(schema.get("minimum", 0), 0), schema.get("maximum", 1000))


def _texts(schema: Schema) -> st.SearchStrategy[str]:
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "format" in schema:
        return st.sampled_from(FORMATS[schema["format"]][0])
    if "pattern" in schema:
        shortest, longest = schema.get("minLength", 0), min(schema.get("maxLength", 40), 40)
        matching = st.from_regex(f"(?a){schema['pattern']}", fullmatch=True)
        return matching.filter(lambda text: shortest <= len(text) <= longest)
    return PLAIN.filter(lambda text: len(text) >= schema.get("minLength", 0))


def _objects(schema: Schema) -> st.SearchStrategy[dict[str, Any]]:
    if schema.get("x-kubernetes-embedded-resource"):
        return _embedded()
    if "additionalProperties" in schema:
        return st.dictionaries(NAMES, _values(schema["additionalProperties"]), max_size=3)
    properties = schema.get("properties")
    if properties is None:
        return st.dictionaries(NAMES, st.integers(0, 9) | PLAIN, max_size=3)
    required = set(schema.get("required", ()))
    forgotten = st.integers(0, 39).flatmap(
        lambda dice: st.sampled_from(sorted(required)) if dice == 0 and required else st.none()
    )
    fields = st.fixed_dictionaries(
        {name: _values(field) for name, field in properties.items() if name in required},
        optional={name: _values(field) for name, field in properties.items() if name not in required},
    )
    return st.tuples(fields, forgotten).map(lambda pair: {k: v for k, v in pair[0].items() if k != pair[1]})


def _embedded() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {"metadata": st.fixed_dictionaries({"name": NAMES})},
        optional={
            "apiVersion": st.just("example.com/v1"),
            "kind": st.just("Example"),
            "spec": st.dictionaries(NAMES, PLAIN, max_size=2),
        },
    )
