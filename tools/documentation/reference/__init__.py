"""The pages of the reference, generated from the code. A test fails for items without a text (tests/structure)."""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from tools.documentation.reference import (
    attacks,
    chart_values,
    commands,
    crds,
    deletions,
    metrics,
    options,
    python_api,
    reasons,
)

FOLDER = Path("docs/reference")


@cache
def pages() -> Mapping[str, str]:
    """Return the texts of all pages by their paths below `docs/reference`."""
    return {
        "resources.md": crds.page(),
        "options.md": options.page(),
        "commands.md": commands.page(),
        "metrics.md": metrics.page(),
        "reasons.md": reasons.page(),
        "chart-values.md": chart_values.page(),
        "deletions.md": deletions.page(),
        "attacks.md": attacks.page(),
        **{f"python/{name}.md": text for name, text in python_api.pages().items()},
    }


def kept() -> Mapping[Path, str]:
    """Return what the repository keeps, by its files: the pages but the Python API, and the READMEs of the charts."""
    linked = {FOLDER / name: text for name, text in pages().items() if not name.startswith("python/")}
    return {**linked, **chart_values.readmes()}


def undescribed() -> Iterator[str]:
    """Yield each item of the reference that has no description."""
    for part in (crds, options, commands, metrics, reasons, chart_values, deletions, attacks, python_api):
        yield from (f"{part.__name__}: {name}" for name, text in part.items() if not text.strip())
