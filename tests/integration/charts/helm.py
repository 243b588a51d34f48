"""Helm as administrators use it: the program, run with or without a cluster."""

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from kube_runtime import parse_objects
from kyma_local import helm

CHARTS = Path("charts").absolute()
LIFECYCLE_MANAGER, MODULE_MANAGER, SKR_WATCHER = (
    CHARTS / name for name in ("lifecycle-manager", "module-manager", "skr-watcher")
)
NAMESPACES = {LIFECYCLE_MANAGER: "kcp-system", MODULE_MANAGER: "kcp-system", SKR_WATCHER: "kyma-system"}
WAYS = {
    "lifecycle-manager": (LIFECYCLE_MANAGER, ()),
    "lifecycle-manager-with-everything": (
        LIFECYCLE_MANAGER,
        ("-f", str(LIFECYCLE_MANAGER / "ci/everything-values.yaml")),
    ),
    "cloud-resources": (MODULE_MANAGER, ("-f", str(MODULE_MANAGER / "ci/cloud-resources-values.yaml"))),
    "guestbook": (MODULE_MANAGER, ("-f", str(MODULE_MANAGER / "ci/guestbook-values.yaml"))),
    "skr-watcher": (SKR_WATCHER, ("-f", str(SKR_WATCHER / "ci/by-hand-values.yaml"))),
}
"""The installations of the tests: the chart and the arguments of each."""


@dataclass(frozen=True)
class Helm(helm.Helm):
    """Renders charts, too, each installation once."""

    rendered: dict[tuple[str, ...], list[dict[str, Any]]] = field(default_factory=dict, compare=False)

    async def render(self, chart: Path, *arguments: str, release: str = "") -> list[dict[str, Any]]:
        """Return the objects of a chart, rendered without a cluster. Raises HelmFailed."""
        command = ("template", release or chart.name, str(chart), "-n", NAMESPACES[chart], *arguments)
        if command not in self.rendered:
            text = await self.run(*command)
            self.rendered[command] = [dict(each.document) for each in parse_objects(text)]
        return deepcopy(self.rendered[command])


def of_kind(objects: Iterable[dict[str, Any]], kind: str) -> dict[str, dict[str, Any]]:
    """Return the objects of a kind, by their names."""
    return {each["metadata"]["name"]: each for each in objects if each["kind"] == kind}


def expressions_in(objects: list[dict[str, Any]]) -> list[str]:
    (rules,) = of_kind(objects, "PrometheusRule").values()
    (dashboards,) = of_kind(objects, "ConfigMap").values()
    panels = [panel for text in dashboards["data"].values() for panel in msgspec.json.decode(text)["panels"]]
    expressions = [rule["expr"] for group in rules["spec"]["groups"] for rule in group["rules"]]
    return expressions + [target["expr"] for panel in panels for target in panel["targets"]]


def values(**given: Any) -> tuple[str, ...]:
    """Return the arguments that set values; `a__b` stands for `a.b`."""
    return tuple(
        argument
        for path, value in given.items()
        for argument in (
            "--set",
            f"{path.replace('__', '.')}={str(value).lower() if value is True or value is False else value}",
        )
    )
