"""The reference is complete: whatever the code has, it describes; and what people are told to use, it has."""

import re
from pathlib import Path

from tools.documentation.reference import kept, metrics, options, reasons, undescribed
from tools.documentation.reference import pages as reference

METRIC = re.compile(r"\b(?:lifecycle_mgr|controller_runtime|workqueue)_[a-z_]+[a-z]\b")
SUFFIX = re.compile(r"_(?:bucket|sum|count)$")
WATCHED = ("charts/lifecycle-manager/files", "docs")


def test_every_item_of_the_reference_is_described() -> None:
    assert list(undescribed()) == []


def test_reference_has_items_of_every_kind() -> None:
    assert len(list(options.items())) > 100
    assert len(metrics.names()) > 50
    assert len(reasons.in_source()) > 100
    assert all(len(text.splitlines()) > 10 for text in reference().values())


def test_pages_in_the_repository_are_those_of_the_code() -> None:
    stale = [str(file) for file, text in kept().items() if not file.is_file() or file.read_text() != text]
    assert stale == [], "run make reference"


def test_described_reasons_exist() -> None:
    assert reasons.unused() == frozenset()


def test_metrics_with_computed_names_are_collected() -> None:
    assert list(metrics.computed_elsewhere()) == []


def test_alerts_dashboards_and_documents_name_metrics_that_exist() -> None:
    files = [file for folder in WATCHED for file in Path(folder).rglob("*") if file.suffix in {".md", ".yaml", ".json"}]
    named = {name for file in files for name in METRIC.findall(file.read_text())}
    known = metrics.names() | {SUFFIX.sub("", name) for name in metrics.names()}
    unknown = {name for name in named if SUFFIX.sub("", name) not in known}
    assert len(named) > 20
    assert sorted(unknown) == []
