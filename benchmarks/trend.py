"""Draws the figures of releases: `python -m benchmarks.trend` reads benchmarks/results/v*.json and writes the drawing.

Each figure that has a peer is a line of its own: the ratio to the peer, release by release, since values of different
machines cannot be compared. A release that missed its bar has a hollow mark.
"""

import argparse
import re
import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from xml.etree.ElementTree import Element, ElementTree, SubElement, indent

from benchmarks.document import RESULTS, Document, read_document

DRAWING = Path(__file__).parent.parent / "docs" / "pictures" / "figures-of-releases.svg"
ROW, LABEL, STEP, VALUE, TOP = 28, 330, 70, 90, 40
COLOUR, GREY = "#0a6ed1", "#8a8a8a"


@dataclass(frozen=True, slots=True)
class Mark:
    """The ratio of a figure to its peer in one release."""

    release: int
    ratio: float
    met: bool


def main() -> int:
    """Write the drawing; return 1 if there is no release to draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--output", type=Path, default=DRAWING)
    options = parser.parse_args()
    releases = read_releases(options.results)
    if not releases:
        print(f"{options.results} has no document of a release, such as v1.2.3.json: run make bench", file=sys.stderr)
        return 1
    drawing = draw(releases)
    indent(drawing)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    ElementTree(drawing).write(options.output, encoding="utf-8")
    print(f"{len(releases)} releases in {options.output}", file=sys.stderr)
    return 0


def read_releases(folder: Path) -> dict[str, Document]:
    """Return the documents of releases by version, the oldest first. Raises ValueError for a file that is none."""
    paths = sorted(folder.glob("v*.json"), key=lambda path: [int(number) for number in re.findall(r"\d+", path.stem)])
    return {path.stem: read_document(path) for path in paths}


def marks_of(releases: dict[str, Document]) -> dict[str, list[Mark]]:
    """Return the marks of each figure that has a peer, by its name."""
    marks: dict[str, list[Mark]] = {}
    for number, document in enumerate(releases.values()):
        for figure in document.figures:
            if figure.ratio is not None:
                marks.setdefault(figure.name, []).append(Mark(number, figure.ratio, figure.met is not False))
    return dict(sorted(marks.items()))


def draw(releases: dict[str, Document]) -> Element:
    """Return the drawing."""
    marks = marks_of(releases)
    width, height = LABEL + STEP * len(releases) + VALUE, TOP + ROW * len(marks) + 10
    drawing = Element("svg", xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {width} {height}", width=str(width))
    drawing.set("font-family", "sans-serif")
    drawing.set("font-size", "12")
    SubElement(drawing, "title").text = "Ratios to the peer, release by release; a hollow mark missed its bar"
    for number, name in enumerate(releases):
        _text(drawing, _x(number), TOP - 18, name, anchor="middle")
    for row, (name, points) in enumerate(marks.items()):
        _draw_row(drawing, TOP + ROW * row, name, points, x_of_value=LABEL + STEP * len(releases))
    return drawing


def _draw_row(drawing: Element, top: float, name: str, points: list[Mark], *, x_of_value: float) -> None:
    largest = max(point.ratio for point in points) or 1.0

    def y(point: Mark) -> float:
        return top + ROW - 6 - (ROW - 12) * point.ratio / largest

    _text(drawing, LABEL - 16, top + ROW / 2 + 4, name, anchor="end")
    for before, after in pairwise(points):
        line = {"x1": _x(before.release), "y1": y(before), "x2": _x(after.release), "y2": y(after)}
        SubElement(drawing, "line", {key: f"{value:g}" for key, value in line.items()}, stroke=COLOUR)
    for point in points:
        circle = {"cx": f"{_x(point.release):g}", "cy": f"{y(point):g}", "r": "4", "stroke": COLOUR}
        SubElement(drawing, "circle", circle, fill=COLOUR if point.met else "none")
    _text(drawing, x_of_value, top + ROW / 2 + 4, f"{points[-1].ratio:.3g}")


def _x(release: int) -> float:
    return LABEL + STEP * (release + 0.5)


def _text(drawing: Element, x: float, y: float, text: str, *, anchor: str = "start") -> None:
    attributes = {"x": f"{x:g}", "y": f"{y:g}", "text-anchor": anchor, "fill": GREY}
    SubElement(drawing, "text", attributes).text = text


if __name__ == "__main__":
    sys.exit(main())
