"""The reasons of conditions and Events. What one means is written here; that none is missing is found in the source."""

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path

import kyma_oci
import lifecycle_manager
from kyma_oci import PushRefused, SourceError
from lifecycle_manager.events.problems import Reason
from tools.documentation.markdown import code, escaped, table
from tools.documentation.reference.reason_texts import CONDITIONS, NOT_REASONS, REASONS, SOURCE_HELP

FOLDERS = ("lifecycle_manager", "libraries/module_manager", "libraries/oci")
SAMPLES = "samples"
WORD = re.compile(r"[A-Z][A-Za-z]*[a-z][A-Za-z]*")
TRUTH = frozenset({"True", "False", "Unknown"})
CONSTANT = re.compile(r"\b[A-Z][A-Z_]+\b|\breason\b")
BEGIN_WITH_REASON = frozenset({"Exclusion", "SkrFailure"})
"""Classes whose first argument is a reason."""
FROM_STATES = ("ModuleError", "ModuleWarning", "ModuleProcessing", "ModuleDeleting")
"""Reasons that are `Module` and a state."""


def page() -> str:
    """Return the page."""
    text = "# Conditions, reasons and Events\n\n## Conditions\n\n"
    text += table(("resource", "condition", "what it says"), [(a, code(b), escaped(c)) for a, b, c in CONDITIONS])
    for title, texts in _sections().items():
        rows = [(code(name), escaped(meaning), escaped(advice)) for name, (meaning, advice) in sorted(texts.items())]
        text += f"\n## {title}\n\n" + table(("reason", "what is found", "what to do"), rows)
    rows = [(code(each.value), str(each.status), each.heading) for each in Reason]
    text += "\n## Of refused events\n\nThe label `reason` of `lifecycle_mgr_event_refused_total`, and the answer.\n\n"
    return text + table(("reason", "status", "title"), rows)


def items() -> Iterator[tuple[str, str]]:
    """Yield all reasons and conditions with their texts; one that is only in the source has none."""
    yield from ((f"{resource} {name}", text) for resource, name, text in CONDITIONS)
    known = {name: meaning for texts in _sections().values() for name, (meaning, _) in texts.items()}
    yield from known.items()
    names = {name for _, name, _ in CONDITIONS}
    yield from ((each, "") for each in sorted(in_source() - known.keys() - names - NOT_REASONS))


def unused() -> frozenset[str]:
    """Return the reasons with a text that the source does not have."""
    own = {name for texts in REASONS.values() for name in texts}
    return frozenset(own - _words() - set(FROM_STATES))


def in_source() -> frozenset[str]:
    """Return the words that stand in the source where a reason does."""
    return frozenset(word for tree in _trees() for word in _candidates(tree) if WORD.fullmatch(word))


def _import_all() -> None:
    """Import every module that may declare a kind of SourceError: classes are known once they are imported."""
    for package in (kyma_oci, lifecycle_manager):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)


def _sections() -> Mapping[str, Mapping[str, tuple[str, str]]]:
    _import_all()
    sources = {
        kind.reason: (" ".join((kind.__doc__ or "").split()), SOURCE_HELP.get(kind.reason, ""))
        for kind in _subclasses(SourceError)
        if kind is not PushRefused
    }
    return {**REASONS, "Of the source of a module's objects": sources}


def _subclasses(kind: type[SourceError]) -> Iterator[type[SourceError]]:
    for each in kind.__subclasses__():
        if each.__module__.partition(".")[0] in {"lifecycle_manager", "kyma_oci"}:
            yield each
        yield from _subclasses(each)


def _trees() -> Iterator[ast.Module]:
    for folder in FOLDERS:
        for file in sorted(Path(folder, "src").rglob("*.py")):
            if SAMPLES not in file.parts:
                yield ast.parse(file.read_text())


def _words() -> frozenset[str]:
    return frozenset(
        node.value
        for tree in _trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _candidates(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets, value=value):
                if CONSTANT.search(" ".join(map(ast.unparse, targets))):
                    yield from _texts(value)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                if CONSTANT.search(ast.unparse(target)):
                    yield from _texts(value)
            case ast.keyword(arg="reason", value=value):
                yield from _texts(value)
            case ast.Call(func=ast.Name(id=name), args=[first, *_]) if name in BEGIN_WITH_REASON:
                yield from _texts(first)
        yield from _after_truth(node)


def _after_truth(node: ast.AST) -> Iterator[str]:
    """Yield what follows the status of a condition in a tuple or a call."""
    inner = node.elts if isinstance(node, ast.Tuple) else node.args if isinstance(node, ast.Call) else []
    for status, reason in pairwise(inner):
        if isinstance(status, ast.Constant) and status.value in TRUTH:
            yield from _texts(reason)


def _texts(node: ast.expr) -> Iterator[str]:
    match node:
        case ast.Constant(value=str() as text):
            yield text
        case ast.IfExp(body=body, orelse=orelse):
            yield from (*_texts(body), *_texts(orelse))
        case ast.Dict(values=values):
            for each in values:
                if isinstance(each, ast.Tuple) and each.elts:
                    yield from _texts(each.elts[0])
