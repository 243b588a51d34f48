"""What `klm adopt --check` prints."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest

from rich.cells import cell_len

from kyma_fleet.documents import Document, Part
from kyma_fleet.screen import LiveTable, Screen
from kyma_fleet.text import padded, plain, wrapped
from kyma_takeover.adoption.cluster import ClusterReport
from kyma_takeover.adoption.deployment import Deployment, FormerOption
from kyma_takeover.adoption.findings import Obstacle, Row
from kyma_takeover.adoption.reading import FormerControlPlane
from lifecycle_manager_api import State

NO_EFFECT = "no effect"
MAX_TITLE = 18
CLUSTER_TITLES = (
    "CLUSTER",
    "VERSION",
    "MOVED",
    "OURS",
    "MISSING",
    "FOREIGN",
    "WATCHER",
    "REMOVED",
    "CATALOG",
)


class AdoptionCounts(Part, frozen=True):
    """How many there are of what; `certificates` is None where they may not be read."""

    kymas: int
    kyma_states: Mapping[State, int]
    manifests: int
    manifest_states: Mapping[State, int]
    modules: Mapping[str, int]
    access_secrets: int
    access_secrets_without_label: int
    certificates: int | None
    module_templates: int
    module_release_metas: int
    watchers: int

    @classmethod
    def of(cls, seen: FormerControlPlane) -> "AdoptionCounts":
        """Return the counts of a control plane."""
        counts, secrets = seen.counts, seen.secrets
        return cls(
            kymas=counts.states.total(),
            kyma_states=dict(counts.states),
            manifests=counts.manifests.total(),
            manifest_states=dict(counts.manifests),
            modules={f"{name} {version}": count for (name, version), count in sorted(counts.modules.items())},
            access_secrets=counts.accesses.total(),
            access_secrets_without_label=len(counts.unlabelled),
            certificates=secrets.leaves if secrets is not None else None,
            module_templates=seen.templates,
            module_release_metas=seen.releases,
            watchers=seen.watchers,
        )


class AdoptionReport(Document, frozen=True):
    """What a takeover finds and changes, and what is in its way."""

    api_server: str
    former: tuple[Deployment, ...]
    counts: AdoptionCounts
    rows: tuple[Row, ...]
    options: tuple[FormerOption, ...]
    clusters: tuple[ClusterReport, ...]
    in_the_way: tuple[Obstacle, ...]

    def print_table(self, screen: Screen) -> None:
        """Print it for people."""
        _print_findings(
            screen,
            ("WHAT", "FOUND", "WITH THIS VERSION"),
            [(each.title, each.found, each.becomes) for each in self.rows],
        )
        if self.options:
            screen.print()
            rows = [(each.given, each.becomes or NO_EFFECT, each.why) for each in self.options]
            _print_findings(screen, ("OPTION", "BECOMES", "WHY"), rows)
        read = [each for each in self.clusters if not each.error]
        if read:
            screen.print()
            LiveTable(screen, CLUSTER_TITLES).print(_cells(each) for each in read)
        screen.print()
        if not self.in_the_way:
            screen.print(screen.painted("nothing is in the way", fg="green"))
        for each in self.in_the_way:
            screen.print_wrapped(f"{screen.painted('in the way:', fg='red', bold=True)} ", each.text, 12)
            screen.print_wrapped(f"{' ' * 12}next:  ", each.advice, 19)

    def names(self) -> Iterator[str]:
        """Return the Deployments of the former version."""
        return (f"deployment.apps/{each.name}" for each in self.former)


def _print_findings(screen: Screen, titles: Sequence[str], rows: Sequence[tuple[str, str, str]]) -> None:
    """Print a table; on a terminal, where it would be cut, each row with its last column below the second."""
    if screen.width is None:
        LiveTable(screen, titles).print(rows)
        return
    used = min(max(cell_len(title) for title, _, _ in rows) + 2, MAX_TITLE)
    for title, found, becomes in rows:
        begins = [plain(title)]
        if cell_len(title) >= used:
            screen.print(begins.pop())
        below = wrapped(plain(f"→ {becomes}"), screen.width, used) if becomes else []
        for line, begin in zip_longest([*wrapped(plain(found), screen.width, used), *below], begins, fillvalue=""):
            screen.print(f"{padded(begin, used)}{line}".rstrip())


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
