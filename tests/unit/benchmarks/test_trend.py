"""The drawing of the figures of releases."""

import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from benchmarks import trend
from benchmarks.document import BenchFigure, Document, Machine

MACHINE = Machine(processor="Xeon", cores=2, memory_mb=16_000, system="Linux 6", load=0.5)
SVG = "{http://www.w3.org/2000/svg}"


def write(folder: Path, release: str, **ratios: float | None) -> None:
    """Write the document of a release; bars are missed from a ratio of 2 on."""
    figures = [
        BenchFigure(name=name, unit="ms", value=1.0, ratio=ratio, met=ratio is None or ratio < 2)
        for name, ratio in ratios.items()
    ]
    Document(began="then", commit="abc", machine=MACHINE, versions={}, figures=figures, failed=[]).write(
        folder / f"{release}.json"
    )


def test_each_figure_with_a_peer_is_drawn_release_by_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "v0.10.0", end_to_end=1.5, memory=None)
    write(tmp_path, "v0.9.0", end_to_end=2.1)
    drawing = tmp_path / "pictures" / "trend.svg"
    monkeypatch.setattr(sys, "argv", ["trend", f"--results={tmp_path}", f"--output={drawing}"])

    assert trend.main() == 0

    root = ET.parse(drawing).getroot()  # noqa: S314 - it was just written here
    assert [text.text for text in root.iter(f"{SVG}text")] == ["v0.9.0", "v0.10.0", "end_to_end", "1.5"]
    assert [circle.get("fill") for circle in root.iter(f"{SVG}circle")] == ["none", trend.COLOUR]
    assert len(list(root.iter(f"{SVG}line"))) == 1


def test_without_a_release_there_is_nothing_to_draw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["trend", f"--results={tmp_path}", f"--output={tmp_path / 'a.svg'}"])

    assert trend.main() == 1
    assert not (tmp_path / "a.svg").exists()
