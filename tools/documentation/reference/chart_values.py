"""The values of the charts: what is written above a value in values.yaml, or else above the values around it."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import yaml

from tools.documentation.markdown import code, escaped, table

CHARTS = {
    "lifecycle-manager": "Lifecycle Manager. `options` takes each [option](options.md) by its name.",
    "module-manager": "a Module Manager: one release for each module.",
    "skr-watcher": "the Watcher, where an administrator installs it by hand.",
}
DOCS = "https://github.com/kyma-project/lifecycle-manager-py/blob/main/docs"
INSTALL = f"{DOCS}/install.md"
LINE = re.compile(r"(?P<indent> *)(?P<name>[\w.-]+):(?P<value>.*)")
USUAL = {
    "nameOverride": "Replaces the chart's name in names of objects.",
    "fullnameOverride": "Replaces release and chart in names of objects.",
    "registry": "Registry of the image, with a path; none if empty.",
    "repository": "Repository of the image.",
    "pullPolicy": "When the kubelet pulls the image.",
    "imagePullSecrets": "Secrets with credentials for the registry of the image.",
    "annotations": "Annotations of the object.",
    "resources": "Requests and limits of the container.",
    "podAnnotations": "Annotations of the Pods.",
    "podLabels": "Labels of the Pods.",
    "nodeSelector": "On which nodes Pods run.",
    "tolerations": "Taints of nodes that Pods tolerate.",
    "affinity": "Affinity of the Pods.",
    "topologySpreadConstraints": "How Pods are spread.",
    "priorityClassName": "Priority class of the Pods.",
    "extraArgs": "Further arguments of the program.",
    "extraEnv": "Further variables of the environment.",
    "extraVolumes": "Further volumes of the Pods.",
    "extraVolumeMounts": "Where the container mounts these.",
    "podDisruptionBudget": "How many Pods may be evicted at once.",
    "serviceAccount": "The ServiceAccount of the Pods: whether it is created, its name, its annotations.",
    "rbac": "Whether roles and bindings are created.",
    "digest": "sha256:… pins the image, whatever its tag.",
    "logLevel": "The least level that is logged: debug, info, warning or error.",
    "terminationGracePeriodSeconds": "Seconds that a Pod has to finish its reconciles.",
    "apiServerPorts": "Ports of API servers that the Pods may reach.",
    "createNamespace": "Whether the chart creates the namespace, which stays when the release is removed.",
    "enabled": "Whether there is such an object.",
    "interval": "How often Prometheus scrapes; its default if empty.",
    "labels": "Labels by which Prometheus finds the object.",
}
"""Values that mean in every chart what they mean here, where values.yaml says nothing else."""


OF_CHARTS_ABOVE = ("enabled", "global")
"""What a chart that depends on this one has in the values of this one."""


class Value(NamedTuple):
    """A value: its path, its default, and what is written of it."""

    path: str
    default: str
    text: str


def page() -> str:
    """Return the page."""
    text = (
        "# Chart values\n\nA text about several values is shown with the first of them, or with the one around them.\n"
    )
    for chart, meaning in CHARTS.items():
        text += f"\n## {chart}\n\n{meaning[0].upper()}{meaning[1:]}\n\n{_table(chart)}"
    return text


def readmes() -> Mapping[Path, str]:
    """Return what `helm show readme` prints of each chart, by its file."""
    return {Path("charts", chart, "README.md"): _readme(chart) for chart in CHARTS}


def _readme(chart: str) -> str:
    about = yaml.safe_load(Path("charts", chart, "Chart.yaml").read_text())["description"]
    text = f"# {chart}\n\n{about} [Installing]({INSTALL})\n\n## Values\n\n"
    if chart == "lifecycle-manager":
        text += f"`options` takes each [option]({DOCS}/reference/options.md) of `klm run` by its name.\n\n"
    return text + _table(chart)


def _table(chart: str) -> str:
    rows = [(code(each.path), code(each.default), escaped(each.text)) for each in _values(chart)]
    return table(("value", "default", "meaning"), rows)


def items() -> Iterator[tuple[str, str]]:
    """Yield all values but groups, each with its text or one of the values around it."""
    for chart in CHARTS:
        known = {each.path: each.text for each in _values(chart)}
        for path, text in known.items():
            if any(each.startswith(f"{path}.") for each in known):
                continue
            around = (path.rsplit(".", count)[0] for count in range(1, path.count(".") + 1))
            yield f"{chart} {path}", text or next(filter(None, (known[each] for each in around)), "")
        schema = json.loads(Path("charts", chart, "values.schema.json").read_text())
        others = [name for name in schema["properties"] if name not in {*known, *OF_CHARTS_ABOVE}]
        yield from ((f"{chart} {name}", "") for name in others)


def _values(chart: str) -> Iterator[Value]:
    """Yield the values in values.yaml, in its order."""
    above: list[str] = []
    path: list[tuple[int, str]] = []
    for line in Path("charts", chart, "values.yaml").read_text().splitlines():
        if line.strip().startswith("#  "):
            continue  # an example of the value above
        if line.strip().startswith("#"):
            above.append(line.strip().lstrip("# "))
        elif found := LINE.match(line):
            indent = len(found["indent"])
            path = [each for each in path if each[0] < indent]
            path.append((indent, found["name"]))
            default = found["value"].strip()
            yield Value(
                ".".join(name for _, name in path), _shown(default), " ".join(above) or USUAL.get(found["name"], "")
            )
            above = []
        elif not line.strip():
            above = []


def _shown(text: str) -> str:
    """Return a default as JSON, or nothing for a value with values in it."""
    return json.dumps(yaml.safe_load(text)) if text and not text.startswith(("#", "|")) else ""
