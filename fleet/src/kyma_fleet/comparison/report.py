"""What `klm diff` prints: a line for each object that would change, and its unified diff."""

from collections import Counter
from collections.abc import Iterator, Sequence

from kube_runtime import InventoryEntry
from kube_runtime.apply.difference import ObjectDifference
from kyma_fleet.documents import Document, Part
from kyma_fleet.screen import Screen
from kyma_fleet.text import code, plain

SIGNS = {
    "create": ("+", "green", "is missing and would be created"),
    "change": ("~", "yellow", "differs and would be changed"),
    "recreate": ("±", "yellow", "differs and would be deleted and created anew"),
    "prune": ("-", "red", "is no longer wanted and would be deleted"),
    "fail": ("✗", "red", "can't be compared"),
}
COLOURS = {"+": "green", "-": "red", "@": "cyan"}


class ComparedObject(Part, frozen=True):
    """One object: what would be done with it, and the lines that would change."""

    object: InventoryEntry
    action: str
    lines: tuple[str, ...]
    error: str | None

    @classmethod
    def of(cls, found: ObjectDifference) -> "ComparedObject":
        """Return what the apply would do, without the two lines that repeat which object it is."""
        return cls(found.entry, found.action, tuple(found.text.splitlines()[2:]), found.error)

    @property
    def name(self) -> str:
        """The object as `kubectl -o name` writes it."""
        kind = ".".join(filter(None, (self.object.kind.lower(), self.object.group)))
        return f"{kind}/{self.object.name}"


class ClusterComparison(Document, frozen=True):
    """What would change in the cluster of a Kyma."""

    kyma: str
    objects: tuple[ComparedObject, ...]

    def print_table(self, screen: Screen) -> None:
        """Print it for people."""
        for each in self.objects:
            if each.action != "none":
                _print_object(each, screen)
        screen.print(_summary(self.objects))

    def names(self) -> Iterator[str]:
        """Return the objects that would change."""
        return (each.name for each in self.objects if each.action != "none")


def _print_object(found: ComparedObject, screen: Screen) -> None:
    sign, colour, what = SIGNS[found.action]
    why = f": {plain(found.error)}" if found.error else ""
    screen.print(f"{screen.painted(f'{sign} {plain(found.object)}', fg=colour, bold=True)} {what}{why}")
    for line in found.lines:
        screen.print("    " + screen.painted(code(line), **_style(line)))


def _summary(differences: Sequence[ComparedObject]) -> str:
    counts: Counter[str] = Counter(each.action for each in differences)
    words = {
        "none": "as wanted",
        "change": "changed",
        "recreate": "created anew",
        "create": "missing",
        "prune": "no longer wanted",
        "fail": "not comparable",
    }
    parts = [f"{counts[action]:,} {word}" for action, word in words.items() if counts[action]]
    return f"{len(differences):,} object{'' if len(differences) == 1 else 's'}: {', '.join(parts) or 'none'}"


def _style(line: str) -> dict[str, str]:
    colour = COLOURS.get(line[:1])
    return {"fg": colour} if colour is not None else {}
