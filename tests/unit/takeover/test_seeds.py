"""What the hand-written seeds of the takeover's tests say is what a Lifecycle Manager in Go was recorded to write.

Compared are, kind by kind: the fields, labels, annotations and finalizers, and who writes them how. What a module's own
resource has is the module's.
"""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from string import Template
from typing import Any

from kube_runtime import load_documents, load_yaml

TESTS = Path(__file__).parents[2]
SEEDS = TESTS / "integration/takeover/data"
RECORDINGS = TESTS / "takeover_from_go/recordings"
NOT_RECORDED = {
    "finalizer operator.kyma-project.io/purge-finalizer": "only with --enable-purge-finalizer",
    "field spec.template.spec.volumes[].configMap": "operators mount the maintenance policy",
}
"""What no recording shows, by the begin of a kind or a claim, and why."""
OF_MODULES = {"module_1", "module_2"}
FREE = {"data", "resource", "source", "descriptor", "matchLabels", "labelsToWatch", "selector", "args", "resources"}
"""Fields whose content is a module's, a user's or an operator's."""
ANY: defaultdict[str, str] = defaultdict(lambda: "anything")
Claim = tuple[str, str, str]


def test_seeds_say_nothing_that_no_recording_shows() -> None:
    recorded = {claim for document in recordings() for claim in claims_of(document)}
    recorded |= {claim for document in recordings() for claim in writers_of(document)}
    unknown = {
        f"{name}.yaml: {kind}: {what} {text}"
        for name, written in seeds()
        for kind, what, text in (*claims_of(written["object"]), *writer_of(written))
        if (kind, what, text) not in recorded and kind != "Sample"
    }
    reasons = {each: reason for each in unknown for reason in NOT_RECORDED if f": {reason}" in each}
    assert sorted(unknown - reasons.keys()) == []
    assert {*reasons.values()} == {*NOT_RECORDED}, "recorded meanwhile"


def seeds() -> Iterator[tuple[str, dict[str, Any]]]:
    for file in sorted(SEEDS.glob("*.yaml")):
        if file.stem not in OF_MODULES:
            yield from ((file.stem, each) for each in load_documents(Template(file.read_text()).substitute(ANY)))


def recordings() -> Iterator[dict[str, Any]]:
    for file in sorted(RECORDINGS.rglob("*.yaml")):
        yield load_yaml(file.read_text())


def claims_of(document: dict[str, Any]) -> Iterator[Claim]:
    kind, metadata = document["kind"], document["metadata"]
    for what in ("labels", "annotations"):
        yield from ((kind, what, key) for key in metadata.get(what) or ())
    yield from ((kind, "finalizer", each) for each in metadata.get("finalizers") or ())
    for part in ("spec", "status", "type"):
        yield from ((kind, "field", path) for path in paths_in(document.get(part), part))


def paths_in(value: Any, path: str) -> Iterator[str]:
    if value is None:
        return
    yield path
    if path.rpartition(".")[2] in FREE:
        return
    if isinstance(value, dict):
        for key, each in value.items():
            yield from paths_in(each, f"{path}.{key}")
    elif isinstance(value, list):
        for each in value:
            yield from paths_in(each, f"{path}[]")


def writer_of(written: dict[str, Any]) -> Iterator[Claim]:
    operation = "Update" if written.get("operation") == "update" else "Apply"
    yield written["object"]["kind"], "writer", f"{written['fieldManager']} {operation} {written.get('subresource', '')}"


def writers_of(document: dict[str, Any]) -> Iterator[Claim]:
    for each in document["metadata"].get("managedFields") or ():
        yield document["kind"], "writer", f"{each['manager']} {each['operation']} {each.get('subresource', '')}"
