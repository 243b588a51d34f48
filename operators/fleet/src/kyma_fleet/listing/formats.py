"""How objects are written: as a table, as JSON or YAML, or by name. Each takes a page at a time and keeps none."""

from collections.abc import Callable, Iterable, Mapping
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


@dataclass(frozen=True, slots=True)
class DocumentStyle:
    """How documents are written: each as a text, and what is before the first, between two, and after the last."""

    text_of: Callable[[dict[str, Any]], str]
    opening: str = ""
    between: str = ""
    closing: str = ""


ONE_OBJECT = DocumentStyle(lambda document: f"{as_json(document, indent=2)}\n")
LINES = DocumentStyle(lambda document: f"{as_json(document, indent=0)}\n")
LIST = DocumentStyle(
    lambda document: as_json(document, indent=2),
    opening='{"apiVersion": "v1", "kind": "List", "items": [\n',
    between=",\n",
    closing="\n]}\n",
)
YAML = DocumentStyle(as_yaml, between="---\n")


@dataclass(eq=False)
class Documents(Output):
    """Documents as they are read."""

    style: DocumentStyle
    raw: ClassVar[bool] = True
    _is_open: bool = field(default=False, init=False)

    def page(self, items: Iterable[Any], now: datetime) -> int:
        count = 0
        for document in _documents(self.kind, self.selection, items):
            self.screen.stream.write(self.style.between if self._is_open else self.style.opening)
            self.screen.stream.write(self.style.text_of(dict(document)))
            self._is_open = True
            count += 1
        return count

    def end(self) -> None:
        self.screen.stream.write(f"{'' if self._is_open else self.style.opening}{self.style.closing}")


def output_for(kind: ListedKind[Any], selection: Selection, screen: Screen, *, watch: bool) -> Output:
    """Return what writes the format of a screen."""
    is_named = bool(selection.name) and kind.named_objects
    match screen.form:
        case "json":
            return Documents(kind, selection, screen, LINES if watch else ONE_OBJECT if is_named else LIST)
        case "yaml":
            return Documents(kind, selection, screen, YAML)
        case "name":
            return Names(kind, selection, screen)
        case _:
            return Table(kind, selection, screen)


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
