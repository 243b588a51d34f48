"""What may be deleted, and when, as the rules and steps of the plans say."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path("lifecycle_manager/src/lifecycle_manager")
RULE = "May delete:"
DELETING = re.compile(r"^(Delete|Remove|Prune|Purge|Strip|Release|HandOver|delete|prune|release|hand_over)")
WITHOUT_STEPS = {SOURCE / each for each in ("object_set/engine.py", "catalog_sync/apply.py", "skr_webhook/apply.py")}
"""Their methods are what domains without steps do."""
HEAD = """\
# What may be deleted, and when

Every deletion is one of these steps, decided by these pure rules. Nothing else deletes objects of modules, users or
Lifecycle Manager.
"""


def rule_of(plan: Path) -> str:
    """Return the paragraph of a plan's docstring that says what it may delete; empty where there is none."""
    text = ast.get_docstring(ast.parse(plan.read_text())) or ""
    paragraphs = [each for each in text.split("\n\n") if each.startswith(RULE)]
    return paragraphs[0].removeprefix(RULE).strip() if paragraphs else ""


def plans() -> dict[str, Path]:
    files = sorted([*SOURCE.rglob("plan.py"), *SOURCE.rglob("rules.py")])
    return {str(file.parent.relative_to(SOURCE)): file for file in files}


def deleting_steps() -> Iterator[tuple[str, str, str]]:
    """Yield folder, name and docstring of each step that deletes, or gives up a finalizer or an object."""
    for file in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(file.read_text())
        for each in ast.walk(tree) if file in WITHOUT_STEPS else tree.body:
            is_deleting = isinstance(each, ast.AsyncFunctionDef) or (isinstance(each, ast.ClassDef) and is_step(each))
            if isinstance(each, ast.AsyncFunctionDef | ast.ClassDef) and is_deleting and DELETING.match(each.name):
                yield str(file.parent.relative_to(SOURCE)), each.name, ast.get_docstring(each) or ""


def is_step(definition: ast.ClassDef) -> bool:
    """Tell whether a class is a step: by its bases, which end in Step or End."""
    return any(isinstance(base, ast.Name) and base.id.endswith(("Step", "End")) for base in definition.bases)


def page() -> str:
    """Return the page."""
    rules = [f"## {folder}\n\n{sentence(rule_of(file))}\n" for folder, file in plans().items() if rule_of(file)]
    rows = [f"| `{folder}` | `{name}` | {' '.join(text.split())} |" for folder, name, text in deleting_steps()]
    table = "\n".join(["## The steps", "", "| in | step | what it does |", "|---|---|---|", *rows, ""])
    return "\n".join([HEAD, *rules, table])


def sentence(rule: str) -> str:
    return rule[:1].upper() + rule[1:]


def items() -> Iterator[tuple[str, str]]:
    """Yield all plans with their rules, and all steps that delete with their texts."""
    yield from ((folder, rule_of(file)) for folder, file in plans().items())
    yield from ((f"{folder} {name}", text) for folder, name, text in deleting_steps())
