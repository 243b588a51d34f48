"""How the commands `klm module …` print."""

import sys
from collections import Counter
from collections.abc import Iterable
from io import TextIOWrapper

from rich.console import Console
from rich.markup import escape

console = Console()


def print_line(text: str) -> None:
    """Print a line, in which markup counts."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # not every terminal can show the signs
    console.print(text, highlight=False, soft_wrap=True)


def print_result(title: str, problems: Iterable[str]) -> None:
    """Print what was checked, and what is wrong."""
    found = tuple(problems)
    print_line(f"{'[red]✗[/]' if found else '[green]✓[/]'} {shown(title)}")
    for problem in found:
        print_line(f"    {shown(problem)}")


def print_problem(text: object) -> None:
    """Print why nothing was done."""
    print_line(f"[red]✗[/] {shown(text)}")


def print_notice(text: str) -> None:
    """Print what is worth knowing, though nothing is wrong."""
    print_line(f"[yellow]![/] {shown(text)}")


def tally(kinds: Iterable[str]) -> str:
    """Return how many objects there are, and of which kinds."""
    found = Counter(kinds)
    return f"{found.total()} objects: {', '.join(f'{number} {kind}' for kind, number in sorted(found.items()))}"


def shown(text: object) -> str:
    """Return lines as they are printed: without control characters, and nothing in them is markup."""
    return escape("".join(each if each.isprintable() or each == "\n" else "?" for each in str(text)))
