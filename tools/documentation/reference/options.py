"""The options of `klm run`, and the settings of the Watcher."""

import ast
import inspect
from collections.abc import Iterable, Iterator

from lifecycle_manager.options.model import Option
from lifecycle_manager.settings import PREFIX, grouped, options
from skr_watcher import settings as watcher_settings
from skr_watcher.settings import SkrWatcherSettings
from tools.documentation.markdown import code, escaped, table

INTRODUCTION = f"""# Options

What `klm run` reads: a flag, or else a variable of the environment, `{PREFIX}` and the option's name in capitals with
underscores. The chart sets them by [`options`](chart-values.md), in most cases; a duration is one such as `30s` or
`1h30m`. [Commands](commands.md) lists the options of every other command.
"""


def page() -> str:
    """Return the page."""
    return INTRODUCTION + "".join(_group(title, group) for title, group in grouped().items()) + _of_the_watcher()


def items() -> Iterator[tuple[str, str]]:
    """Yield all options and variables with their texts."""
    yield from ((f"--{name}", option.help) for name, option in options().items())
    yield from ((name, text) for name, _, text in _variables())


def _group(title: str, group: Iterable[Option]) -> str:
    rows = [(code(f"--{each.name}"), code(each.default), escaped(each.help)) for each in group]
    return f"\n## {title}\n\n" + table(("option", "default", "meaning"), rows)


def _of_the_watcher() -> str:
    rows = [(code(name), code(default), escaped(text)) for name, default, text in _variables()]
    return (
        "\n## Of the Watcher\n\nIn a cluster, Lifecycle Manager sets these variables of the Watcher's container.\n\n"
        + table(("variable", "default", "meaning"), rows)
    )


def _variables() -> Iterator[tuple[str, str, str]]:
    """Yield the environment variables of the Watcher: name, default, and the text below the field."""
    module = ast.parse(inspect.getsource(watcher_settings))
    declared = next(
        each for each in module.body if isinstance(each, ast.ClassDef) and each.name == "SkrWatcherSettings"
    )
    texts = _texts_below_fields(declared)
    defaults = SkrWatcherSettings()
    reading = next(each for each in declared.body if isinstance(each, ast.FunctionDef))
    for keyword in next(_calls_of("cls", reading)).keywords:
        name = next(_capitals(keyword.value))
        value = getattr(defaults, str(keyword.arg))
        shown = str(value).lower() if isinstance(value, bool) else str("" if value is None else value)
        yield name, shown, texts.get(str(keyword.arg), "")


def _texts_below_fields(declared: ast.ClassDef) -> dict[str, str]:
    found = {}
    for field, text in zip(declared.body, declared.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            found[ast.unparse(field.target)] = inspect.cleandoc(str(text.value.value))
    return found


def _calls_of(name: str, node: ast.AST) -> Iterator[ast.Call]:
    for each in ast.walk(node):
        if isinstance(each, ast.Call) and ast.unparse(each.func) == name and each.keywords:
            yield each


def _capitals(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str) and each.value.isupper():
            yield each.value
