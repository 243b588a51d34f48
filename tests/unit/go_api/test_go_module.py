"""The generated module for Go reads and writes the same objects as the types in Python."""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_crds import object_schema, schema_of
from libraries.api.generate_go.generate import GO_MODULE, generated_files
from lifecycle_manager_api import ApiObject, decode, encode
from lifecycle_manager_api.crds import KINDS
from lifecycle_manager_api.meta import ObjectMeta
from tests.go_programs import build, run_go

Document = dict[str, Any]
RoundTrip = Callable[[bytes], bytes]
CHARACTERS = st.characters(codec="utf-8")
TEXTS = st.text(CHARACTERS, max_size=8)
WHOLE_NUMBERS = st.integers(min_value=1, max_value=2**53)
TIMES = st.integers(0, 2**32).map(lambda seconds: datetime.fromtimestamp(seconds, UTC).isoformat())
FREE_FORM = st.dictionaries(
    TEXTS, st.recursive(st.none() | st.booleans() | WHOLE_NUMBERS | TEXTS, lambda inner: st.lists(inner, max_size=2))
)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Go program; the first build takes a minute."""
    return build(GO_MODULE / "internal" / "roundtrip", tmp_path_factory.mktemp("go") / "roundtrip")


@pytest.fixture(scope="module")
def through_go(program: Path) -> Iterator[RoundTrip]:
    """Return what Go writes for an object, from one process for all."""
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:

        def send(body: bytes) -> bytes:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(body + b"\n")
            process.stdin.flush()
            return process.stdout.readline()

        yield send
        process.terminate()


def test_generated_files_are_current() -> None:
    """`make go` writes them."""
    written = {path: path.read_text() for path in GO_MODULE.glob("*/*.go")}
    assert written == dict(generated_files())


def test_module_is_formatted_and_without_findings(program: Path) -> None:
    assert run_go(GO_MODULE, "vet", "./...") == ""
    gofmt = shutil.which("gofmt") or str(Path(run_go(GO_MODULE, "env", "GOROOT").strip()) / "bin" / "gofmt")
    assert subprocess.run([gofmt, "-l", GO_MODULE], capture_output=True, text=True, check=True).stdout == ""


def test_module_depends_on_apimachinery_alone(program: Path) -> None:
    direct = run_go(GO_MODULE, "list", "-m", "-f", "{{if not (or .Indirect .Main)}}{{.Path}}{{end}}", "all")
    assert direct.split() == ["k8s.io/apimachinery"]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.KIND)
@given(data=st.data())
def test_objects_are_the_same_after_python_and_go(
    through_go: RoundTrip, kind: type[ApiObject], data: st.DataObject
) -> None:
    written = encode(decode(kind, msgspec.json.encode(data.draw(_objects(kind)))))
    by_go = msgspec.json.encode(msgspec.json.decode(through_go(written)))  # with characters escaped as Python does it

    assert decode(kind, by_go) == decode(kind, written)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.KIND)
def test_object_with_an_unknown_field_is_refused_by_go(program: Path, kind: type[ApiObject]) -> None:
    document = {"apiVersion": f"{kind.GROUP}/{kind.VERSION}", "kind": kind.KIND, "spec": {"futureSetting": 1}}
    done = subprocess.run([program], input=msgspec.json.encode(document), capture_output=True, check=False)

    assert done.returncode == 1
    assert b'unknown field "spec.futureSetting"' in done.stderr


def _objects(kind: type[ApiObject]) -> st.SearchStrategy[Document]:
    """Return valid objects of a kind, as far as the schemas of fields tell; each field is there or not."""
    schema = object_schema(kind)
    fields = {**schema["properties"], "metadata": schema_of(ObjectMeta)}
    constant = {"apiVersion": st.just(f"{kind.GROUP}/{kind.VERSION}"), "kind": st.just(kind.KIND)}
    values = {name: _values(each) for name, each in fields.items() if name not in constant}
    required = {name: values.pop(name) for name in schema["required"] if name in values}
    return st.fixed_dictionaries(constant | required, optional=values)


def _values(schema: Document) -> st.SearchStrategy[Any]:
    match schema:
        case {"enum": values}:
            found = st.sampled_from(values)
        case {"x-kubernetes-int-or-string": True}:
            found = st.integers(0, schema["maximum"]) | st.from_regex(schema["pattern"], fullmatch=True)
        case {"x-kubernetes-preserve-unknown-fields": True}:
            found = FREE_FORM
        case {"type": "boolean" | "integer" as kind}:
            found = st.booleans() if kind == "boolean" else WHOLE_NUMBERS
        case {"type": "array", "items": items}:
            found = st.lists(_values(items), min_size=schema.get("minItems", 0), max_size=2)
        case {"properties": properties}:
            values = {name: _values(each) for name, each in properties.items()}
            required = {name: values.pop(name) for name in schema.get("required", ())}
            found = st.fixed_dictionaries(required, optional=values)
        case {"additionalProperties": each}:
            found = st.dictionaries(TEXTS, _values(each), max_size=2)
        case {"pattern": pattern}:
            found = st.from_regex(pattern, fullmatch=True)
        case {"format": "date-time"}:
            found = TIMES
        case _:
            found = st.text(CHARACTERS, min_size=schema.get("minLength", 0), max_size=8)
    return found
