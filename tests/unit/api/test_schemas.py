"""Schemas and their descriptions, and the copies in the charts."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest

import lifecycle_manager_api
from kube_crds import Struct, keyed_by, object_schema, schema, schema_of
from kube_runtime import parse_objects
from lifecycle_manager_api import ApiObject, Kyma, WaveRules, names
from lifecycle_manager_api.crds import KINDS, all_crds, crd_for
from lifecycle_manager_api.documents import plain
from lifecycle_manager_api.module_policy import DENIED

COPIES = Path("charts/lifecycle-manager/files/crds")


class Part(Struct, frozen=True, kw_only=True):
    """A part."""

    name: str
    """Its name."""


class Whole(Struct, frozen=True, kw_only=True):
    """A whole
    of parts.
    """

    parts: Annotated[tuple[Part, ...], keyed_by("name")] = ()
    """The parts, identified
    by their names."""
    short_text: Annotated[str, schema(maxLength=3)] = ""
    """A text."""


class Undescribed(Struct, frozen=True, kw_only=True):
    field: str


def test_schema_has_rules_and_descriptions() -> None:
    assert schema_of(Whole) == {
        "type": "object",
        "description": "A whole of parts.",
        "properties": {
            "parts": {
                "type": "array",
                "description": "The parts, identified by their names.",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {
                    "type": "object",
                    "description": "A part.",
                    "properties": {"name": {"type": "string", "description": "Its name."}},
                    "required": ["name"],
                },
            },
            "shortText": {"type": "string", "maxLength": 3, "description": "A text."},
        },
    }


def test_field_without_a_description_has_none_in_its_schema() -> None:
    assert schema_of(Undescribed)["properties"] == {"field": {"type": "string"}}


@pytest.mark.parametrize("kind", KINDS)
def test_each_field_of_a_kind_has_a_description(kind: type[ApiObject]) -> None:
    assert not list(_undescribed(object_schema(kind), kind.KIND))


def _undescribed(schema: Mapping[str, Any], path: str) -> Iterator[str]:
    for name, field in schema.get("properties", {}).items():
        if not field.get("description") and (path, name) not in {(each.KIND, "metadata") for each in KINDS}:
            yield f"{path}.{name}"
        yield from _undescribed(field, f"{path}.{name}")
        yield from _undescribed(field.get("items", {}), f"{path}.{name}[]")


def test_defaults_of_types_and_schemas_are_the_same() -> None:
    for kind in KINDS:
        crd = crd_for(kind)
        for version in crd["spec"]["versions"][:1]:
            _check_defaults(kind, version["schema"]["openAPIV3Schema"])


def test_copies_of_the_charts_are_up_to_date() -> None:
    copies = {}
    for file in COPIES.glob("*.yaml"):
        (only,) = parse_objects(file.read_text())
        copies[only.document["metadata"]["name"]] = only.document

    assert copies == {crd["metadata"]["name"]: crd for crd in all_crds()}, "run `make charts` and commit what it writes"


def test_old_version_is_not_served_and_keeps_everything() -> None:
    versions = {each["name"]: each for each in crd_for(Kyma)["spec"]["versions"]}

    assert versions["v1beta1"]["served"] is versions["v1beta1"]["storage"] is False
    assert versions["v1beta1"]["schema"]["openAPIV3Schema"]["x-kubernetes-preserve-unknown-fields"] is True


def test_all_public_names_exist() -> None:
    assert sorted(lifecycle_manager_api.__all__, key=str.lower) == sorted(
        set(lifecycle_manager_api.__all__), key=str.lower
    )
    for name in lifecycle_manager_api.__all__:
        assert hasattr(lifecycle_manager_api, name)


def _check_defaults(kind: type[msgspec.Struct], schema: object) -> None:
    for value in _defaults(schema):
        assert value in (
            *(
                True,
                False,
                "",
                "off",
                "CreateAndDelete",
                "baseline",
                names.KCP_NAMESPACE,
                *msgspec.structs.asdict(WaveRules()).values(),
                "Pending",
                "automatic",
            ),
            [plain(each) for each in DENIED],
        ), kind


def _defaults(schema: object) -> list[object]:
    if isinstance(schema, dict):
        own = [schema["default"]] if "default" in schema and not isinstance(schema["default"], dict) else []
        return own + [each for value in schema.values() for each in _defaults(value)]
    return []
