"""The words and the Python of the Markdown files: terms as the glossary has them, and code that imports what exists."""

import ast
import importlib
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lifecycle_manager_api.crds import KINDS
from tools.documentation.markdown import CODE, Block, blocks, prose
from tools.documentation.reference import kept

GLOSSARY = Path("docs/glossary.md")
TERM = re.compile(r"^\| (?P<terms>\*\*.+?) \|", re.MULTILINE)
BOLD = re.compile(r"\*\*(.+?)\*\*")
NAMES = re.compile(r"\b(?:[A-Z]\w+ [A-Z]\w+|[A-Z][a-z]+[A-Z]\w*)\b")
MADE_THERE = "lifecycle_manager.module_report"
"""What docs/extending.md creates; tests/unit/test_extending.py runs it."""
PART_OF = re.compile(r"# (?P<path>\S+\.py)\n(?P<code>.*)", re.DOTALL)
"""A block that shows a part of a file of the repository, which it names first."""
MAX_WORDS = 28_000
"""In all documents, without code."""
RUN_ELSEWHERE = frozenset(
    {
        "libraries/api/README.md",  # tests/integration/packages
        "docs/extending.md",  # tests/unit/test_extending.py
        "docs/kube-runtime.md",  # tests/unit/kube_simulation/test_documented_examples.py
        "docs/start/python-developer.md",  # tests/e2e/start_pages
        "libraries/kube_crds/README.md",  # tests/unit/kube_crds
        "libraries/kube_runtime/README.md",  # tests/integration/kube_runtime, tests/unit/kube_runtime
    }
)
"""Files whose Python other tests run."""


def documents(*, with_changelog: bool = False) -> dict[str, str]:
    listed = subprocess.run(["git", "ls-files", "*.md"], check=True, capture_output=True, text=True).stdout.split()
    return {
        name: Path(name).read_text()
        for name in listed
        if Path(name).is_file() and (with_changelog or name != "CHANGELOG.md") and Path(name) not in kept()
    }


def terms() -> list[str]:
    return [term for row in TERM.finditer(GLOSSARY.read_text()) for term in BOLD.findall(row["terms"])]


def text_of(document: str) -> str:
    """Return the text without code."""
    return " ".join(CODE.sub("", line) for _, line in prose(document))


def test_each_term_of_the_glossary_is_used() -> None:
    used = " ".join(text for name, text in documents().items() if name != str(GLOSSARY)).lower()
    assert len(terms()) > 40
    forms = {term: r"\w* ".join(map(re.escape, term.lower().split())) for term in terms()}
    assert [term for term, form in forms.items() if not re.search(rf"\b{form}", used)] == []


def test_glossary_has_every_resource() -> None:
    known = GLOSSARY.read_text()
    assert [kind.__name__ for kind in KINDS if kind.__name__ not in known] == []


def test_names_are_written_as_in_the_glossary() -> None:
    names = [term for term in terms() if NAMES.fullmatch(term)]
    wrong = [
        f"{name}: {found[0]} (write: {term})"
        for name, document in documents().items()
        for term in names
        for found in re.finditer(rf"\b{re.escape(term)}\b", text_of(document), re.IGNORECASE)
        if found[0] != term and found[0] != found[0].lower().replace(" ", "-")
    ]
    assert len(names) > 8
    assert wrong == []


def python_blocks() -> list[tuple[str, Block]]:
    return [
        (name, block)
        for name, text in documents().items()
        for block in blocks(text)
        if block.language in {"python", "py"}
    ]


def missing_imports(code: str) -> Iterator[str]:
    """Yield what a program imports and what does not exist."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if not _exists(each.name))
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from (
                f"{node.module}.{each.name}" for each in node.names if not _exists(node.module, attribute=each.name)
            )


def _exists(module: str, *, attribute: str = "") -> bool:
    if module.startswith(MADE_THERE) or f"{module}.{attribute}" == MADE_THERE:
        return True
    try:
        found = importlib.import_module(module)
        return not attribute or hasattr(found, attribute) or _exists(f"{module}.{attribute}")
    except ModuleNotFoundError:
        return False


def test_python_in_documents_compiles_and_imports_what_exists() -> None:
    found = python_blocks()
    missing = [f"{name}:{block.line}: {each}" for name, block in found for each in missing_imports(block.code)]
    assert len(found) > 20
    assert missing == []


def test_python_in_documents_runs() -> None:
    """Blocks of one document continue each other, as a reader types them."""
    run = dict[str, int]()
    defined: dict[str, dict[str, object]] = {}
    for name, block in python_blocks():
        if name not in RUN_ELSEWHERE and not PART_OF.match(block.code):
            space = defined.setdefault(name, {"__name__": "example"})
            exec(compile(block.code, f"{name}:{block.line}", "exec", dont_inherit=True), space)  # noqa: S102 - our own
            run[name] = run.get(name, 0) + 1
    assert run["docs/module-managers.md"] > 2


def test_parts_of_files_are_as_in_the_file() -> None:
    parts = [
        (part["path"], part["code"])
        for name, block in python_blocks()
        if name not in RUN_ELSEWHERE and (part := PART_OF.fullmatch(block.code))
    ]
    assert parts
    assert [path for path, code in parts if code not in Path(path).read_text()] == []


def words(text: str) -> int:
    """Return the number of words outside of code; marks of tables and lists are none."""
    return sum(bool(re.search(r"\w", each)) for _, line in prose(text) if line[:4].strip() for each in line.split())


def test_all_documents_together_are_short_enough_to_be_read() -> None:
    counted = {name: words(text) for name, text in documents(with_changelog=True).items()}
    longest = sorted(counted, key=lambda name: -counted[name])[:5]
    assert sum(counted.values()) <= MAX_WORDS, f"{sum(counted.values())} words; the longest: {longest}"


def test_words_are_counted_without_code_and_marks() -> None:
    assert words("# A title\n\n| a | b |\n|---|---|\n- one `code`\n\n    not this\n```\nnor this\n```\n") == 6


@pytest.mark.parametrize(
    ("code", "missing"),
    [
        ("import kube_runtime", []),
        ("from kube_runtime import Manager", []),
        ("from kube_runtime import Managers", ["kube_runtime.Managers"]),
        ("import kube_runtimes", ["kube_runtimes"]),
        ("from lifecycle_manager import app", []),
    ],
)
def test_an_import_that_does_not_exist_is_found(code: str, missing: list[str]) -> None:
    assert list(missing_imports(code)) == missing


def test_a_block_knows_its_line_and_language() -> None:
    assert list(blocks("a\n```python\nx = 1\n```\n~~~\ny\n~~~\n")) == [
        Block(3, "python", "x = 1\n"),
        Block(6, "", "y\n"),
    ]


def test_scenarios_that_differ_from_upstreams_exist() -> None:
    (decision,) = Path("docs/decisions").glob("019-*.md")
    differing = set(re.findall(r"^\| `(test_\w+)`", decision.read_text(), re.MULTILINE))
    files = (*Path("tests/e2e/upstream").glob("test_*.py"), Path("tests/integration/istio/test_gateway_secret.py"))
    assert differing
    assert differing <= {
        name for file in files for name in re.findall(r"^async def (test_\w+)", file.read_text(), re.MULTILINE)
    }
