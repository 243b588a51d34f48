"""What `klm preview` prints: for people, as Markdown for a review of the release, or as a document."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from kyma_fleet.comparison.report import ClusterComparison
from kyma_fleet.documents import Document, Part, reference
from kyma_fleet.overview.tally import counted
from kyma_fleet.preview.plan import KymaPreview, Release, Sums
from kyma_fleet.preview.waves import WaveForecast
from kyma_fleet.screen import LiveTable, Screen
from kyma_fleet.text import plain
from lifecycle_manager_api import Kyma

WAVE_TITLES = ("WAVE", "KYMAS", "AT A TIME", "MAY FAIL", "NOT BEFORE", "SUCH AS")
TITLES = ("HELD BACK BY", "KYMAS", "SUCH AS", "MESSAGE")
KYMA_TITLES = ("KYMA", "HAS", "GETS IT", "HELD BACK BY", "MESSAGE")


class WavePreview(Part, frozen=True):
    """A wave of a release."""

    name: str
    kymas: int
    max_concurrent: int
    max_failures: int
    begins: datetime
    needs_approval: bool
    examples: tuple[str, ...]

    @classmethod
    def of(cls, found: WaveForecast) -> "WavePreview":
        """Return how a wave would be."""
        plan, count = found.plan, found.count
        needs_approval = plan.rules.approval == "required"
        limits = plan.max_concurrent(count), plan.max_failures(count)
        return cls(plan.name, count, *limits, found.begins, needs_approval, tuple(found.examples))


class SampledCluster(Part, frozen=True):
    """What the version would change in one cluster, or why that is not known."""

    kyma: str
    comparison: ClusterComparison | None = None
    error: str = ""


class ReleasePreview(Document, frozen=True):
    """What a release means for the fleet. `lacks_windows`: it requires downtime, and no maintenance policy is known."""

    release: Release
    sums: Sums
    lacks_windows: bool = False
    waves: tuple[WavePreview, ...] | None = None
    clusters: tuple[SampledCluster, ...] = ()

    def print_table(self, screen: Screen) -> None:
        """Print it for people, or as Markdown."""
        as_markdown = screen.form == "markdown"
        headline = self._headline()
        screen.print(f"### {_escaped(headline)}\n" if as_markdown else screen.painted(headline, bold=True))
        for line in self._lines():
            screen.print(f"- {_escaped(line)}" if as_markdown else f"  {line}")
        if self.sums.held:
            _print_rows(screen, TITLES, _held_rows(self.sums))
        if self.waves is not None:
            _print_rows(screen, WAVE_TITLES, list(map(_wave_row, self.waves)))
        if screen.form == "wide":
            _print_rows(screen, KYMA_TITLES, list(map(_kyma_row, self.sums.kymas)))
        for each in self.clusters:
            _print_cluster(each, screen)

    def names(self) -> Iterator[str]:
        """Return the Kymas that would get it."""
        return (reference(Kyma.KIND, each.kyma) for each in self.sums.kymas if each.gets_it)

    def _headline(self) -> str:
        channel = self.release.channel
        where = f"channel {channel}" if channel else "all its channels"
        return plain(f"{self.release.module} {self.release.version} in {where}")

    def _lines(self) -> Iterator[str]:
        sums = self.sums
        if sums.get_it:
            versions = ", ".join(f"{version} ({count:,})" for version, count in sums.versions.most_common(5))
            yield plain(f"{counted(sums.get_it, 'Kyma')} would get it, instead of {versions}")
            if sums.first is not None and sums.last is not None:
                yield f"if it is released now: from {sums.first:%Y-%m-%d %H:%M:%S} to {sums.last:%Y-%m-%d %H:%M:%S} UTC"
        else:
            yield "no Kyma would get it"
        if sums.have_it:
            yield f"{counted(sums.have_it, 'Kyma')} already in this version"
        if sums.held:
            yield f"{counted(sum(each.count for each in sums.held.values()), 'Kyma')} held back"
        if sums.others:
            yield f"{counted(sums.others, 'Kyma')} not affected"
        if self.lacks_windows:
            yield "it requires downtime: --maintenance-policy FILE, as of klm run, takes the windows into account"


def _print_rows(screen: Screen, titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    screen.print()
    if screen.form != "markdown":
        LiveTable(screen, titles).print(rows)
        return
    screen.print(f"| {' | '.join(title.lower() for title in titles)} |\n|{'---|' * len(titles)}")
    for row in rows:
        screen.print(f"| {' | '.join(map(_escaped, row))} |")


def _print_cluster(cluster: SampledCluster, screen: Screen) -> None:
    as_markdown = screen.form == "markdown"
    screen.print(f"\n{'#### ' if as_markdown else ''}objects in the cluster of {plain(cluster.kyma)}")
    if as_markdown:
        screen.print("```diff")
    if cluster.comparison is not None:
        cluster.comparison.print_table(replace(screen, colour=screen.colour and not as_markdown))
    else:
        screen.print(cluster.error)
    if as_markdown:
        screen.print("```")


def _held_rows(sums: Sums) -> list[tuple[str, ...]]:
    held = sorted(sums.held.items(), key=lambda each: -each[1].count)
    return [(reason or "-", f"{each.count:,}", ", ".join(each.examples), each.message) for reason, each in held]


def _wave_row(wave: WavePreview) -> tuple[str, ...]:
    counts = (f"{each:,}" for each in (wave.kymas, wave.max_concurrent, wave.max_failures))
    begins = f"{wave.begins:%m-%d %H:%M}{' and approval' if wave.needs_approval else ''}"
    return (wave.name, *counts, begins, ", ".join(wave.examples) or "-")


def _kyma_row(found: KymaPreview) -> tuple[str, ...]:
    at = f"{found.at:%Y-%m-%d %H:%M:%S}" if found.at is not None else "-"
    return found.kyma, found.before or "-", at, found.reason or "-", found.message or "-"


def _escaped(text: str) -> str:
    """Return a text that Markdown takes as text: no table, link, image, code, emphasis or HTML begins in it."""
    return "".join(f"\\{each}" if each in "\\`*_[]<>|#!" else each for each in plain(text))
