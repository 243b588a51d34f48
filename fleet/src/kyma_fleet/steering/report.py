"""What the commands print that steer: which objects were changed, and which could not be."""

from collections.abc import Iterator

from kyma_fleet.documents import Document, Part
from kyma_fleet.screen import Screen
from kyma_fleet.text import plain

SHOWN = 20


class ChangedObject(Part, frozen=True):
    """An object as kind/name, and why it could not be changed."""

    object: str
    error: str | None = None


class ChangeReport(Document, frozen=True):
    """What a command has done, in one line, and the objects that it was done to."""

    message: str
    objects: tuple[ChangedObject, ...] = ()

    def print_table(self, screen: Screen) -> None:
        """Print it for people."""
        if self.message:
            screen.print(plain(self.message))
        for each in [each for each in self.objects if each.error][:SHOWN]:
            screen.print(plain(f"not changed: {each.object}: {each.error}"))

    def names(self) -> Iterator[str]:
        """Return the objects that were changed."""
        return (each.object for each in self.objects if each.error is None)
