"""The comparison of two runs of the benchmarks."""

import io
import sys
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks import compare
from benchmarks.document import Document, Machine
from benchmarks.figures import Figure

MACHINE = Machine(processor="Xeon", cores=2, memory_mb=16_000, system="Linux 6", load=0.5)


def document(*figures: Figure, machine: Machine = MACHINE, python: str = "3.11.7") -> Document:
    return Document(
        began="2026-01-02T030405Z",
        commit="abc",
        machine=machine,
        versions={"python": python},
        figures=list(figures),
        failed=[],
    )


def figure(name: str, value: float, *, peer: float = 0, met: bool = True) -> Figure:
    return Figure(name=name, unit="ms", value=value, peer_value=peer, bar="", met=met, program="fleet")


def test_ratios_divide_the_new_run_by_the_old() -> None:
    (row,) = compare.compare(document(figure("a", 10, peer=5)), document(figure("a", 15, peer=15)))

    assert (row.name, row.ratio, row.peer_ratio) == ("fleet: a", 1.5, 0.5)


def test_figures_of_one_run_only_have_no_ratio() -> None:
    rows = compare.compare(document(figure("gone", 1)), document(figure("added", 2)))

    assert [(row.name, row.ratio) for row in rows] == [("fleet: added", None), ("fleet: gone", None)]


def test_old_value_of_zero_has_no_ratio() -> None:
    (row,) = compare.compare(document(figure("writes", 0)), document(figure("writes", 4)))

    assert row.ratio is None


def test_differences_name_machine_and_versions() -> None:
    other = Machine(processor="Xeon", cores=8, memory_mb=16_000, system="Linux 6", load=9.0)

    found = compare.differences(document(), document(machine=other, python="3.12.1"))

    assert found == ["cores: 2 and 8", "python: 3.11.7 and 3.12.1"]


def test_table_has_values_ratios_and_bars() -> None:
    output = io.StringIO()

    compare.print_comparison(
        document(figure("a", 10)), document(figure("a", 1500, met=False)), Console(file=output, width=120)
    )

    line = next(line for line in output.getvalue().splitlines() if "fleet: a" in line)
    assert line.split() == ["fleet:", "a", "ms", "10", "1,500", "150", "-", "missed"]


def test_main_prints_the_table_of_two_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in (("old", 10.0), ("new", 5.0)):
        document(figure("a", value)).write(tmp_path / name)
    monkeypatch.setattr(sys, "argv", ["compare", str(tmp_path / "old"), str(tmp_path / "new")])

    assert compare.main() == 0
    assert "0.5" in capsys.readouterr().out


def test_main_names_a_missing_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["compare", str(tmp_path / "missing"), str(tmp_path / "missing")])

    assert compare.main() == 2
    assert "missing" in capsys.readouterr().err
