"""The options of `klm run`, and the settings of the Watcher."""

from collections.abc import Iterable, Iterator

from lifecycle_manager.options.model import Option
from lifecycle_manager.settings import PREFIX, grouped, options
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
    """Yield the environment variables of the Watcher: name, default and description."""
    for name, field in SkrWatcherSettings.model_fields.items():
        value = getattr(SkrWatcherSettings(), name)
        shown = str(value).lower() if isinstance(value, bool) else str("" if value is None else value)
        yield str(field.validation_alias), shown, field.description or ""
