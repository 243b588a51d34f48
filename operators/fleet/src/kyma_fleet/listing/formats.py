"""How objects are written: as a table, as JSON or YAML, or by name. Each takes a page at a time and keeps none."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar

import msgspec

from kube_runtime import ObjectUnreadable
from kyma_fleet.documents import as_json, as_yaml, reference
from kyma_fleet.listing.kinds import ListedKind
from kyma_fleet.listing.selection import Selection
from kyma_fleet.screen import LiveTable, Screen
from kyma_fleet.text import plain


@dataclass(eq=False)
class Output:
    """Where the objects of a kind are written to, page by page. `raw` says that they are read as plain documents."""

    kind: ListedKind[Any]
    selection: Selection
    screen: Screen
    raw: ClassVar[bool] = False

    def page(self, items: Iterable[Any], now: datetime) -> int:
        """Write some objects; return how many rows or documents were written."""
        raise NotImplementedError

    def end(self) -> None:
        """Write what follows the last object."""


@dataclass(eq=False)
class Table(Output):
    """Rows with aligned columns."""

    def __post_init__(self) -> None:
        known = self.kind.columns
        self._is_wide = self.screen.form == "wide"
        titles = (*known.titles, *known.wide) if self._is_wide else known.titles
        self._columns = LiveTable(self.screen, titles, state=known.state)

    def page(self, items: Iterable[Any], now: datetime) -> int:
        rows = (each for item in items for each in self.kind.rows(item, self.selection, now))
        return self._columns.print([(*row, *wide) if self._is_wide else row for row, wide in rows])


class Names(Output):
    """One name a line, as `kubectl -o name` writes it."""

    def page(self, items: Iterable[Any], now: datetime) -> int:
        rows = [(item, row) for item in items for row, _ in self.kind.rows(item, self.selection, now)]
        is_part = self.kind.documents is not None
        for item, row in rows:
            name = f"{row[0]}/{row[1]}" if is_part else reference(self.kind.resource.kind, item.metadata.name)
            self.screen.print(plain(name))
        return len(rows)


@dataclass(eq=False)
class Documents(Output):
    """Documents as they are read, each after what separates it from the one before."""

    raw: ClassVar[bool] = True
    count: int = field(default=0, init=False)

    def page(self, items: Iterable[Any], now: datetime) -> int:
        before = self.count
        for document in _documents(self.kind, self.selection, items):
            self.write(document)
            self.count += 1
        return self.count - before

    def write(self, document: Mapping[str, Any]) -> None:
        """Write one document."""
        raise NotImplementedError


class JsonObject(Documents):
    """The object that was named."""

    indent: ClassVar[int] = 2

    def write(self, document: Mapping[str, Any]) -> None:
        self.screen.print(as_json(document, indent=self.indent))


class JsonStream(JsonObject):
    """A document a line, for a watch."""

    indent: ClassVar[int] = 0


class JsonList(Documents):
    """One List of all documents."""

    OPENING = '{"apiVersion": "v1", "kind": "List", "items": [\n'

    def write(self, document: Mapping[str, Any]) -> None:
        self.screen.stream.write((",\n" if self.count else self.OPENING) + as_json(document, indent=2))

    def end(self) -> None:
        self.screen.print(f"{'' if self.count else self.OPENING}\n]}}")


class Yaml(Documents):
    """A stream of documents, one for each object."""

    def write(self, document: Mapping[str, Any]) -> None:
        if self.count:
            self.screen.print("---")
        self.screen.stream.write(as_yaml(dict(document)))


def output_for(kind: ListedKind[Any], selection: Selection, screen: Screen, *, watch: bool) -> Output:
    """Return what writes the format of a screen."""
    is_named = bool(selection.name) and kind.named_objects
    formats: Mapping[str, type[Output]] = {
        "json": JsonStream if watch else JsonObject if is_named else JsonList,
        "yaml": Yaml,
        "name": Names,
    }
    return formats.get(screen.form, Table)(kind, selection, screen)


def typed(kind: ListedKind[Any], document: Mapping[str, Any]) -> Any:
    """Return a document as the type of its kind. Raises ObjectUnreadable."""
    try:
        return msgspec.convert(document, kind.resource.type)
    except msgspec.ValidationError as error:
        metadata = document["metadata"]
        version = str(metadata.get("resourceVersion", ""))
        raise ObjectUnreadable(metadata.get("namespace", ""), metadata["name"], version, str(error)) from None


def _documents(
    kind: ListedKind[Any], selection: Selection, items: Iterable[dict[str, Any]]
) -> Iterable[Mapping[str, Any]]:
    for item in items:
        if kind.documents is not None:
            yield from kind.documents(typed(kind, item), selection)
            continue
        metadata = {key: value for key, value in item["metadata"].items() if key != "managedFields"}
        # Lists leave out what all of their items have in common.
        yield {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind, **item, "metadata": metadata}
