"""`klm preview`: what is printed, for people, as Markdown for a review or as a document, and what is read for it."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from kube_runtime import Client, KubeError
from kyma_fleet.comparison import ClusterComparison, cluster_of, compare, wanted_after
from kyma_fleet.documents import Document, Part, print_document, reference
from kyma_fleet.explanation.reading import Rules
from kyma_fleet.preview.plan import (
    KymaPreview,
    Release,
    Sums,
    WaveForecast,
    WavesForecast,
    default_of,
    outcome_for,
    released,
    strategy_of,
)
from kyma_fleet.problems import Problem
from kyma_fleet.screen import LiveTable, Screen
from kyma_fleet.text import plain
from lifecycle_manager.contract.resources import DATED_RELEASE_METAS, KYMAS, MODULE_TEMPLATES, ROLLOUT_STRATEGIES
from lifecycle_manager.module_catalog import Offer
from lifecycle_manager.rollout import Timing
from lifecycle_manager.skr.brake import max_changed
from lifecycle_manager_api import Kyma, ModuleTemplate, names
from lifecycle_manager_api.conditions import counted

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


async def preview(
    kcp: Client,
    screen: Screen,
    release: Release,
    rules: Rules,
    *,
    sample: int,
    namespace: str,
    most_changed: str = "20%",
) -> int:
    """Print what a release would change. Nothing is written. `most_changed`: more clusters get it in default waves."""
    templates, releases, strategies = await asyncio.gather(
        kcp.list(MODULE_TEMPLATES, names.KCP_NAMESPACE),
        kcp.list(DATED_RELEASE_METAS, names.KCP_NAMESPACE),
        kcp.list(ROLLOUT_STRATEGIES, names.KCP_NAMESPACE),
    )
    offer, template = released(Offer.of(templates.items, releases.items), release)
    now = datetime.now(UTC)
    strategy = strategy_of(release, releases.items, strategies.items)
    waves = WavesForecast.of(strategy or default_of(strategies.items), release, now)
    spread = timedelta() if strategy is not None else rules.max_delay
    timing = Timing(now, {release.module: now}, spread, rules.policy, min_window=timedelta(minutes=20))
    sums = Sums(sample_size=sample)
    async for page in kcp.pages(KYMAS, names.KCP_NAMESPACE):
        for kyma in page.items:
            outcome = outcome_for(kyma, release, offer, timing)
            sums.add(release, outcome)
            waves.add(kyma, outcome)
    clusters = [await _compared(kcp, each, offer, template, namespace) for each in sums.sample]
    in_waves = strategy is not None or sums.get_it > max_changed(most_changed, len(sums.kymas) + sums.others)
    found = ReleasePreview(
        release=release,
        sums=sums,
        lacks_windows=template.spec.requires_downtime and rules.policy is None,
        waves=tuple(map(WavePreview.of, waves.waves.values())) if in_waves else None,
        clusters=tuple(clusters),
    )
    print_document(found, screen)
    return 0


async def _compared(kcp: Client, name: str, offer: Offer, template: ModuleTemplate, namespace: str) -> SampledCluster:
    """Return what the version would change in one cluster; one that can't be compared does not end the preview."""
    try:
        wanted = await wanted_after(kcp, name, offer, template, namespace)
        async with cluster_of(kcp, name) as skr:
            return SampledCluster(name, await compare(skr, name, wanted, namespace))
    except (Problem, KubeError) as problem:
        return SampledCluster(name, error=plain(problem))
