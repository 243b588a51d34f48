"""The document of a run of the benchmarks, and the selection of its programs."""

from pathlib import Path

import pytest

from benchmarks.__main__ import select
from benchmarks.document import Document, current_commit, current_machine, current_versions, read_document, read_figures

LINE = '{"name":"resync","unit":"s","value":25.5,"peer":"","peer_value":0,"bar":"60 s or less","met":true,"ratio":null}'


def test_figures_are_read_from_what_a_program_prints() -> None:
    figures = read_figures(["starting\n", LINE, '{"other": 1}', ""], "fleet")

    assert [(figure.program, figure.name, figure.value, figure.met) for figure in figures] == [
        ("fleet", "resync", 25.5, True)
    ]


def test_document_is_read_as_it_was_written(tmp_path: Path) -> None:
    document = Document(
        began="2026-01-02T030405Z",
        commit=current_commit(),
        machine=current_machine(),
        versions=current_versions(),
        figures=read_figures([LINE], "fleet"),
        failed=["fleet"],
    )
    path = tmp_path / "results" / "v1.json"

    document.write(path)

    assert read_document(path) == document
    assert document.machine.cores >= 1
    assert {"python", "kyma-lifecycle-manager"} <= document.versions.keys()


def test_invalid_document_is_refused_with_its_path(tmp_path: Path) -> None:
    path = tmp_path / "broken.json"
    path.write_text('{"began": 1}')

    with pytest.raises(ValueError, match=r"broken\.json: "):
        read_document(path)


def test_group_selects_programs_by_prefix() -> None:
    assert select("watcher") == ["watcher_admission", "watcher_events", "watcher_no_loss"]


def test_soak_runs_only_by_its_name() -> None:
    assert "soak" not in select("")
    assert select("soak") == ["soak"]
    assert not {"compare", "document", "profile"} & set(select(""))
