"""Tests start from what a Lifecycle Manager in Go was recorded to write; what they say beside it is named and checked.

Of a takeover, values count: an object is the recorded one, or differs in the fields of a named difference. The
scenarios in tests/e2e write a catalog, Kymas and access Secrets themselves: they have no field that no recording shows.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kyma_takeover import marks
from tests.e2e.upstream.modules import Module
from tests.e2e.upstream.product import access_secret, kyma_of_the_broker
from tests.registries import BlobServer
from tests.takeover_from_go import modules
from tests.takeover_from_go.differing import differing_in
from tests.takeover_from_go.recordings import FOLDER, recorded, the
from tests.takeover_from_go.starts import CLUSTERS, DIFFERENCES, KYMA, MODULE, SECOND, Difference, start

Document = dict[str, Any]
ROOT = Path(__file__).parents[3]
MARKS = (marks.APPLIER, marks.KYMA_MANAGER, marks.CATALOG_MANAGER, *marks.MANIFEST_FINALIZERS)
"""What nobody but the Go version writes: its field managers and finalizers."""
MENTIONED = {
    "benchmarks/processes/former_fleet.py": "which objects were the Go version's",
    "tests/integration/takeover/test_adoption.py": "what klm gives back is the Go version's, and its next apply",
    "tests/integration/takeover/test_split.py": "what klm gives back is the Go version's",
    "tests/takeover_from_go/differing.py": "who writes what was given back",
    "tests/unit/takeover/test_giving_back.py": "what klm gives back is the Go version's",
    "tests/unit/takeover/test_manifests.py": "the status of a Manifest",
    "tests/unit/takeover/test_starts.py": "these very marks",
    "tests/unit/module_installation/test_controller.py": "finalizers that go",
}
"""Files that name one of these marks, and for what: none of them writes what the Go version left."""
NOT_RECORDED = {
    "Secret label operator.kyma-project.io/managed-by": "only in production",
}
FREE = {"data", "descriptor", "selector", "requiresDowntime"}
"""Fields whose content is a module's, or an operator's."""


def key_of(document: Document) -> tuple[str, str, str]:
    metadata = document["metadata"]
    return document["kind"], metadata.get("namespace", ""), metadata["name"]


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_start_is_the_recording_without_other_kymas(cluster: str) -> None:
    held = {key_of(each): each for each in recorded(cluster)}
    found = {key_of(each): each for each in start(cluster)}
    assert [key for key, each in found.items() if each != held[key]] == []
    assert all(SECOND in name for _, _, name in held.keys() - found.keys())


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_start_with_one_module_differs_in_the_lists_of_kymas_alone(cluster: str) -> None:
    held = {key_of(each): each for each in recorded(cluster)}
    found = {key_of(each): each for each in start(cluster, chosen=(MODULE,))}
    changed = {key for key, each in found.items() if each != held[key]}
    assert {kind for kind, _, _ in changed} == {"Kyma"}
    for key in changed:
        paths = differing_in(held[key], found[key])
        assert all(path.startswith(("spec.modules[]", "status.modules[]")) for path in paths)
        assert [each for each in found[key]["spec"]["modules"] if each not in held[key]["spec"]["modules"]] == []
    others = {each.name for each in modules.INSTALLED} - {MODULE.name}
    assert {key for key in held.keys() - found.keys() if not any(each in key[2] for each in {*others, SECOND})} == set()


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda it: f"{it.kind}: {it.why}")
def test_difference_changes_the_fields_that_it_names_and_no_others(difference: Difference) -> None:
    concerned = [each for each in recorded(difference.cluster) if difference.concerns(difference.cluster, each)]
    assert len(concerned) == 1
    for each in concerned:
        paths = differing_in(each, difference.change(each))
        assert [path for path in paths if not path.startswith(tuple(difference.fields))] == []
        assert [each for each in difference.fields if not any(path.startswith(each) for path in paths)] == []


@pytest.mark.parametrize("module", modules.INSTALLED, ids=lambda it: it.name)
def test_modules_are_those_that_were_recorded(module: modules.GoModule) -> None:
    (manifest,) = recorded("kcp", "Manifest", belonging_to=f"{KYMA}-{module.name}")
    assert manifest["spec"]["install"]["source"]["ref"] == module.layer(modules.OLD).digest


def test_marks_of_the_go_version_are_recorded() -> None:
    texts = "".join(each.read_text() for each in FOLDER.rglob("*.yaml"))
    assert [each for each in MARKS if each not in texts] == []


def test_nothing_but_the_recording_is_written_as_by_the_go_version() -> None:
    found = {str(file.relative_to(ROOT)) for file in sources() if {*texts_in(file)} & {*MARKS}}
    assert sorted(found) == sorted(MENTIONED)


def sources() -> Iterator[Path]:
    """Yield the tests and benchmarks, and the data beside them, but for the recordings."""
    for folder in ("tests", "benchmarks"):
        for file in (ROOT / folder).rglob("*"):
            if file.suffix in {".py", ".yaml", ".yml", ".json"} and FOLDER.parent not in file.parents:
                yield file


def texts_in(file: Path) -> Iterator[str]:
    """Yield the texts of a program, or the words of other files."""
    if file.suffix == ".py":
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield from node.value.split()
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "marks":
                yield from (each for each in [getattr(marks, node.attr, None)] if isinstance(each, str))
    else:
        yield from file.read_text().replace('"', " ").replace(",", " ").split()


def scenarios() -> Iterator[Document]:
    """Yield what the scenarios of upstream write to the control plane."""
    layers = BlobServer("127.0.0.1:5000")
    for module in (Module(name="operator"), Module(name="mandatory", mandatory=True)):
        yield from module.templates(layers, "1.0.0")
        yield module.release(mandatory="1.0.0") if module.mandatory else module.release(regular="1.0.0")
    yield kyma_of_the_broker()
    yield access_secret("")


def test_scenarios_write_no_field_that_no_recording_shows() -> None:
    shown = {claim for kind in ("ModuleTemplate", "ModuleReleaseMeta", "Kyma") for claim in claims_of_all(kind)}
    shown |= {*claims_of(the("kcp", "Secret", f"kubeconfig-{KYMA}"))}
    unknown = {claim for each in scenarios() for claim in claims_of(each)} - shown
    assert sorted(unknown) == sorted(NOT_RECORDED)


def claims_of_all(kind: str) -> Iterator[str]:
    for each in recorded("kcp", kind):
        yield from claims_of(each)


def claims_of(document: Document) -> Iterator[str]:
    """Yield the fields, labels, annotations and finalizers of an object, after its kind."""
    kind, metadata = document["kind"], document["metadata"]
    for what in ("label", "annotation"):
        yield from (f"{kind} {what} {key}" for key in metadata.get(f"{what}s") or ())
    yield from (f"{kind} finalizer {each}" for each in metadata.get("finalizers") or ())
    for part in ("spec", "status", "type"):
        yield from (f"{kind} {path}" for path in _paths_in(document.get(part), part))


def _paths_in(value: Any, path: str) -> Iterator[str]:
    if value is None:
        return
    yield path
    if path.rpartition(".")[2] in FREE:
        return
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _paths_in(each, f"{path}.{key}")
    elif isinstance(value, list):
        for each in value:
            yield from _paths_in(each, f"{path}[]")
