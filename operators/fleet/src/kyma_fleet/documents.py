"""What a command prints: one document, of which the table is one rendering, and JSON and YAML are the whole."""

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from kube_runtime import JsonObject, Resource, dump_yaml
from kyma_fleet.screen import Screen
from kyma_fleet.text import plain
from lifecycle_manager_api import names

_RAW_CONTROL = re.compile(r"[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


class Part(msgspec.Struct, frozen=True, rename="camel"):
    """A part of a document."""


class Document(Part, frozen=True, kw_only=True, tag_field="kind", tag=True):
    """What one command prints. Its fields are the keys of JSON and YAML, after `kind`: they stay as they are."""

    def print_table(self, screen: Screen) -> None:
        """Print it for people."""
        raise NotImplementedError

    def names(self) -> Iterable[str]:
        """Return the objects that it is about, as kind/name."""
        raise NotImplementedError


def print_document(document: Document, screen: Screen, *, is_one_of_many: bool = False) -> None:
    """Print a document in the format of the screen; one of many is a line of JSON, or a document of a YAML stream."""
    match screen.form:
        case "json":
            screen.print(as_json(document, indent=0 if is_one_of_many else 2))
        case "yaml":
            if is_one_of_many:
                screen.print("---")
            screen.stream.write(as_yaml(msgspec.to_builtins(document)))
        case "name":
            for each in dict.fromkeys(document.names()):
                screen.print(plain(each))
        case _:
            document.print_table(screen)


def raw(resource: Resource[Any]) -> Resource[JsonObject]:
    """Return a kind whose objects are read as documents, whatever is in them."""
    return Resource.dynamic(resource.group, resource.version, resource.kind, resource.plural, resource.namespaced)


def reference(kind: str, name: str) -> str:
    """Return an object of Lifecycle Manager as `kubectl -o name` writes it."""
    return f"{kind.lower()}.{names.GROUP}/{name}"


def as_json(document: Any, *, indent: int) -> str:
    """Return a document as JSON in which every character that could steer a terminal is escaped."""
    encoded = msgspec.json.encode(document)
    text = (msgspec.json.format(encoded, indent=indent) if indent else encoded).decode()
    return _RAW_CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def as_yaml(document: dict[str, Any]) -> str:
    """Return a document as YAML without characters that could steer a terminal."""
    return _RAW_CONTROL.sub("", dump_yaml(document))
