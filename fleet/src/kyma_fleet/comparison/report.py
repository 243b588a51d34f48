"""Prints differences: a line for each object that would change, and its unified diff."""

from collections import Counter
from collections.abc import Iterable, Sequence

from kube_runtime.apply.difference import ObjectDifference
from kyma_fleet.screen import Screen
from kyma_fleet.text import code, plain

SIGNS = {
    "create": ("+", "green", "is missing and would be created"),
    "change": ("~", "yellow", "differs and would be changed"),
    "prune": ("-", "red", "is no longer wanted and would be deleted"),
    "fail": ("✗", "red", "can't be compared"),
}
COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def print_differences(differences: Iterable[ObjectDifference], screen: Screen) -> None:
    """Print each object that is not as it is wanted."""
    for each in differences:
        if each.action == "none":
            continue
        sign, colour, what = SIGNS[each.action]
        why = f": {plain(each.error)}" if each.error else ""
        screen.print(f"{screen.painted(f'{sign} {plain(each.entry)}', fg=colour, bold=True)} {what}{why}")
        for line in each.text.splitlines()[2:]:  # the first two repeat which object it is
            screen.print("    " + screen.painted(code(line), **_style(line)))


def summary(differences: Sequence[ObjectDifference]) -> str:
    """Return how many objects are as they are wanted, and how many are not."""
    counts: Counter[str] = Counter(each.action for each in differences)
    words = {
        "none": "as wanted",
        "change": "changed",
        "create": "missing",
        "prune": "no longer wanted",
        "fail": "not comparable",
    }
    parts = [f"{counts[action]:,} {word}" for action, word in words.items() if counts[action]]
    return f"{len(differences):,} object{'' if len(differences) == 1 else 's'}: {', '.join(parts) or 'none'}"


def _style(line: str) -> dict[str, str]:
    colour = COLOURS.get(line[:1])
    return {"fg": colour} if colour is not None else {}
