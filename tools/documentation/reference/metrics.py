"""The metrics of the programs. Those with a plain name are found in the source, the others by asking for samples."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from prometheus_client import CollectorRegistry

from kube_runtime import RuntimeMetrics
from kube_runtime.clock import SYSTEM_CLOCK
from lifecycle_manager.process.telemetry import ChangeLatency
from tools.documentation.markdown import code, escaped, table

TYPES = {
    "Counter": "counter",
    "Gauge": "gauge",
    "Histogram": "histogram",
    "CounterMetricFamily": "counter",
    "GaugeMetricFamily": "gauge",
    "HistogramMetricFamily": "histogram",
    "_gauge": "gauge",
    "self._counter": "counter",
    "self._histogram": "histogram",
}
"""What a function makes whose first two arguments are a name and a text."""
PROGRAMS = {
    "Lifecycle Manager": ("lifecycle_manager",),
    "The Watcher": ("watcher",),
    "Module Managers": ("libraries/module_manager",),
    "The runtime, in Lifecycle Manager and Module Managers": ("libraries/kube_runtime",),
}
TEXTS = {"text": "FIPS mode of this process: 0 off, 1 on, 2 only."}
"""Texts that the source gives by a variable."""
COMPUTED = {
    Path("libraries/kube_runtime/src/kube_runtime/metrics.py"),
    Path("lifecycle_manager/src/lifecycle_manager/process/telemetry.py"),
}
"""Files with metrics whose names are computed; `_collected` asks for these."""


INTRODUCTION = """# Metrics

All are at `/metrics` in the text format of Prometheus. A histogram has the series `_bucket`, `_sum` and `_count`.
"""


class Metric(NamedTuple):
    """A metric as a scrape has it."""

    name: str
    type: str
    labels: tuple[str, ...]
    text: str


def page() -> str:
    """Return the page."""
    text = INTRODUCTION
    for title, folders in PROGRAMS.items():
        rows = [
            (code(each.name), each.type, ", ".join(map(code, each.labels)), escaped(each.text))
            for folder in folders
            for each in _metrics(folder)
        ]
        text += f"\n## {title}\n\n" + table(("metric", "type", "labels", "meaning"), rows)
    return text


def items() -> Iterator[tuple[str, str]]:
    """Yield all metrics with their texts."""
    yield from (
        (each.name, each.text) for folders in PROGRAMS.values() for folder in folders for each in _metrics(folder)
    )


def names() -> frozenset[str]:
    """Return the names of all metrics."""
    return frozenset(name for name, _ in items())


def computed_elsewhere() -> Iterator[str]:
    """Yield the places where a metric has a computed name, outside of the files whose metrics are asked for."""
    for folders in PROGRAMS.values():
        for folder in folders:
            for file in sorted(Path(folder, "src").rglob("*.py")):
                if file not in COMPUTED:
                    yield from (
                        f"{file}:{call.lineno}" for call in _calls(file) if isinstance(call.args[0], ast.JoinedStr)
                    )


@cache
def _metrics(folder: str) -> tuple[Metric, ...]:
    found = {
        metric.name: metric
        for file in Path(folder, "src").rglob("*.py")
        for call in _calls(file)
        if (metric := _literal(call)) is not None
    }
    for metric in _collected().get(folder, ()):
        found.setdefault(metric.name, metric)
    return tuple(found[name] for name in sorted(found))


def _calls(file: Path) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in TYPES and len(node.args) >= 2:
            yield node


def _literal(call: ast.Call) -> Metric | None:
    name, text, *rest = call.args
    if not (isinstance(name, ast.Constant) and isinstance(name.value, str)):
        return None
    if any(each.arg == "registry" and ast.unparse(each.value) == "None" for each in call.keywords):
        return None
    kind, made_by = TYPES[ast.unparse(call.func)], ast.unparse(call.func)
    given = [*(each.value for each in call.keywords if each.arg in {"labels", "labelnames"}), *rest]
    labels = [
        str(each.value)
        for node in given
        for each in ast.walk(node)
        if isinstance(each, ast.Constant) and made_by != "_gauge"
    ] or [str(each.value) for node in given[:1] for each in ast.walk(node) if isinstance(each, ast.Constant)]
    if made_by.startswith("self."):
        labels.insert(0, "module")
    meaning = text.value if isinstance(text, ast.Constant) else TEXTS.get(ast.unparse(text), "")
    return Metric(f"{name.value}_total" if kind == "counter" else name.value, kind, tuple(labels), str(meaning))


def _collected() -> dict[str, tuple[Metric, ...]]:
    registry = CollectorRegistry()
    ChangeLatency(registry, SYSTEM_CLOCK)
    runtime = [
        Metric(
            f"{each.name}_total" if each.type == "counter" else each.name,
            each.type,
            tuple(getattr(each, "_labelnames", ())),
            each.documentation,
        )
        for each in RuntimeMetrics().collect()
    ]
    service = [Metric(each.name, each.type, (), each.documentation) for each in registry.collect()]
    return {"libraries/kube_runtime": tuple(runtime), "lifecycle_manager": tuple(service)}
