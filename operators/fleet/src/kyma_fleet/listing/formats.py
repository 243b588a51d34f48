"""How objects are written: as a table, as JSON or YAML, or by name. Each takes a page at a time and keeps none."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

import msgspec

from kube_runtime import ObjectUnreadable
from kyma_fleet.documents import as_json, as_yaml, reference
from kyma_fleet.listing.kinds import ListedKind, Row
from kyma_fleet.listing.selection import Selection
from kyma_fleet.screen import LiveTable, Screen
from kyma_fleet.text import plain


class Output(Protocol):
    """Where objects are written to, page by page. `raw` says that they are read as plain documents."""

    raw: bool

    def page(self, items: Iterable[Any], now: datetime) -> int:
        """Write some objects; return how many were written."""

    def end(self) -> None:
        """Write what follows the last object."""


@dataclass(eq=False)
class Table:
    """Rows with aligned columns."""

    kind: ListedKind[Any]
    selection: Selection
    screen: Screen
    wide: bool = False
    raw: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        known = self.kind.columns
        titles = (*known.titles, *known.wide) if self.wide else known.titles
        self._columns = LiveTable(self.screen, titles, state=known.state)

    def page(self, items: Iterable[Any], now: datetime) -> int:
        """Write the rows of some objects."""
        rows: list[Row] = []
        for item in items:
            for row, wide in self.kind.rows(item, self.selection, now):
                rows.append((*row, *wide) if self.wide else row)
        return self._columns.print(rows)

    def end(self) -> None:
        """Write nothing."""


@dataclass(eq=False)
class Names:
    """One name a line, as `kubectl -o name` writes it."""

    kind: ListedKind[Any]
    selection: Selection
    screen: Screen
    raw: bool = field(default=False, init=False)

    def page(self, items: Iterable[Any], now: datetime) -> int:
        """Write some names."""
        count = 0
        for item in items:
            for row, _ in self.kind.rows(item, self.selection, now):
                is_part = self.kind.documents is not None
                name = f"{row[0]}/{row[1]}" if is_part else reference(self.kind.resource.kind, item.metadata.name)
                self.screen.print(plain(name))
                count += 1
        return count

    def end(self) -> None:
        """Write nothing."""


@dataclass(eq=False)
class Json:
    """One document: a List, or the object itself where one was named. `lines`: a document a line, for a watch."""

    kind: ListedKind[Any]
    selection: Selection
    screen: Screen
    single: bool = False
    lines: bool = False
    raw: bool = field(default=True, init=False)
    _begun: bool = field(default=False, init=False)

    def page(self, items: Iterable[Any], now: datetime) -> int:
        """Write some documents."""
        count = 0
        for document in _documents(self.kind, self.selection, items):
            text = as_json(document, indent=0 if self.lines else 2)
            self.screen.stream.write(text if self.single or self.lines else self._separator() + text)
            if self.lines or self.single:
                self.screen.print()
            count += 1
        return count

    def end(self) -> None:
        """Close the list."""
        if not self.single and not self.lines:
            self.screen.print(f"{'' if self._begun else self._opening()}\n]}}")

    def _separator(self) -> str:
        begun, self._begun = self._begun, True
        return ",\n" if begun else self._opening()

    @staticmethod
    def _opening() -> str:
        return '{"apiVersion": "v1", "kind": "List", "items": [\n'


@dataclass(eq=False)
class Yaml:
    """A stream of documents, one for each object."""

    kind: ListedKind[Any]
    selection: Selection
    screen: Screen
    raw: bool = field(default=True, init=False)
    _begun: bool = field(default=False, init=False)

    def page(self, items: Iterable[Any], now: datetime) -> int:
        """Write some documents."""
        count = 0
        for document in _documents(self.kind, self.selection, items):
            if self._begun:
                self.screen.print("---")
            self._begun = True
            self.screen.stream.write(as_yaml(dict(document)))
            count += 1
        return count

    def end(self) -> None:
        """Write nothing."""


def output_for(kind: ListedKind[Any], selection: Selection, screen: Screen, *, watch: bool) -> Output:
    """Return what writes the format of a screen."""
    match screen.form:
        case "json":
            single = bool(selection.name) and kind.named_objects
            return Json(kind, selection, screen, single=single, lines=watch)
        case "yaml":
            return Yaml(kind, selection, screen)
        case "name":
            return Names(kind, selection, screen)
        case _:
            return Table(kind, selection, screen, wide=screen.form == "wide")


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
