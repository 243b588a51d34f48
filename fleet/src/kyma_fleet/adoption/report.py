"""Prints what `klm adopt --check` found: as tables, or as one JSON document."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import msgspec

from kyma_fleet.adoption.cluster import ClusterReport
from kyma_fleet.adoption.deployment import FormerOption
from kyma_fleet.adoption.findings import Obstacle, Row
from kyma_fleet.adoption.reading import FormerControlPlane
from kyma_fleet.listing.formats import as_json
from kyma_fleet.screen import LiveTable, Screen
from kyma_fleet.text import plain

NO_EFFECT = "no effect"
CLUSTER_TITLES = (
    "CLUSTER",
    "API SERVER",
    "OWNER CHANGES",
    "OURS",
    "MISSING",
    "UNMARKED",
    "WATCHER",
    "REMOVED",
    "CATALOG",
)


@dataclass(frozen=True, slots=True)
class AdoptionReport:
    """All of it."""

    seen: FormerControlPlane
    rows: Sequence[Row]
    options: Sequence[FormerOption]
    clusters: Sequence[ClusterReport]
    obstacles: Sequence[Obstacle]


def print_tables(report: AdoptionReport, screen: Screen) -> None:
    """Print tables, and what is in the way."""
    LiveTable(screen, ("WHAT", "FOUND", "WITH THIS VERSION")).print(
        (each.title, each.found, each.becomes) for each in report.rows
    )
    if report.options:
        screen.print()
        rows = [(each.given, each.becomes or NO_EFFECT, each.why) for each in report.options]
        LiveTable(screen, ("OPTION", "BECOMES", "WHY")).print(rows)
    read = [each for each in report.clusters if not each.error]
    if read:
        screen.print()
        LiveTable(screen, CLUSTER_TITLES).print(_cells(each) for each in read)
    screen.print()
    if not report.obstacles:
        screen.print(screen.painted("nothing is in the way", fg="green"))
    for each in report.obstacles:
        screen.print(f"{screen.painted('in the way:', fg='red', bold=True)} {plain(each.text)}")
        screen.print(f"{' ' * 12}next:  {plain(each.advice)}")


def print_json(report: AdoptionReport, screen: Screen) -> None:
    """Print one document."""
    screen.print(as_json(msgspec.to_builtins(_document(report)), indent=2))


def _document(report: AdoptionReport) -> dict[str, Any]:
    seen, counts, secrets = report.seen, report.seen.counts, report.seen.secrets
    return {
        "apiServer": seen.server_version,
        "former": [asdict(each) for each in seen.deployments],
        "counts": {
            "kymas": counts.states.total(),
            "kymaStates": {state.value: count for state, count in counts.states.items()},
            "manifests": counts.manifests.total(),
            "manifestStates": {state.value: count for state, count in counts.manifests.items()},
            "modules": {f"{name} {version}": count for (name, version), count in sorted(counts.modules.items())},
            "accessSecrets": counts.accesses.total(),
            "accessSecretsWithoutLabel": counts.unlabelled.count,
            "certificates": secrets.leaves if secrets is not None else None,
            "moduleTemplates": seen.templates,
            "moduleReleaseMetas": seen.releases,
            "watchers": seen.watchers,
        },
        "rows": [asdict(each) for each in report.rows],
        "options": [asdict(each) for each in report.options],
        "clusters": [asdict(each) for each in report.clusters],
        "inTheWay": [asdict(each) for each in report.obstacles],
    }


def _cells(cluster: ClusterReport) -> tuple[str, ...]:
    beyond = f" (+{cluster.unread:,} not read)" if cluster.unread else ""
    return (
        cluster.kyma,
        cluster.version,
        f"{cluster.moved:,}{beyond}",
        f"{cluster.own:,}",
        f"{cluster.missing:,}",
        f"{cluster.foreign:,}",
        f"{cluster.replaced:,} replaced",
        f"{cluster.removed:,}",
        f"{cluster.catalog:,}",
    )
