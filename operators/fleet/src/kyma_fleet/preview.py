"""`klm preview`: what a release would change in the fleet, before it is released. Nothing is written.

First what the rules of Lifecycle Manager say for each Kyma, in pure functions (`release_waves` for the waves); then
what is printed, for people, as Markdown for a review or as a document; then the command.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import msgspec

from kube_runtime import Client, KubeError
from kyma_fleet.comparison import ClusterComparison, compare, wanted_after
from kyma_fleet.documents import Document, Part, print_document, reference
from kyma_fleet.explanation.reading import Rules
from kyma_fleet.problems import Problem, unknown_module
from kyma_fleet.release_waves import (
    EXAMPLES,
    WAVE_TITLES,
    Release,
    WavePreview,
    default_of,
    require_not_taken_back,
    strategy_of,
    wave_row,
    waves_of,
)
from kyma_fleet.screen import LeftOut, LiveTable, Screen
from kyma_fleet.text import plain
from lifecycle_manager.contract.resources import (
    DATED_RELEASE_METAS,
    KYMAS,
    MODULE_ROLLOUTS,
    MODULE_TEMPLATES,
    ROLLOUT_STRATEGIES,
)
from lifecycle_manager.kyma.reasons import ROLLOUT_PENDING, WAITS_FOR_MAINTENANCE
from lifecycle_manager.kyma.resolution import Installed, Resolution, resolve
from lifecycle_manager.module_catalog.offer import Offer
from lifecycle_manager.rollout.schedule import Timing
from lifecycle_manager.rollout.waves import wave_of
from lifecycle_manager.skr.removals import max_changed
from lifecycle_manager_api import (
    ChannelVersion,
    Kyma,
    KymaModule,
    KymaModuleStatus,
    KymaSpec,
    ModuleTemplate,
    State,
    names,
    template_name,
)
from lifecycle_manager_api.conditions import counted

MAX_REASONS = 50


@dataclass(frozen=True, slots=True)
class KymaPreview:
    """What a release means for one Kyma: when it gets it, or why not."""

    kyma: str
    before: str
    at: datetime | None = None
    reason: str = ""
    message: str = ""

    @property
    def gets_it(self) -> bool:
        """Whether the Kyma gets the version without anybody's doing."""
        return self.at is not None


class HeldBack(Part, frozen=True):
    """Why some Kymas do not get a version: how many, some of them, and the message for the first."""

    count: int
    message: str
    examples: tuple[str, ...]


class Sums(Part, frozen=True):
    """What a release means for the fleet. `versions` are those that would be replaced; `sample` gets it first."""

    have_it: int
    get_it: int
    others: int
    first: datetime | None
    last: datetime | None
    versions: Mapping[str, int]
    held_back: Mapping[str, HeldBack]
    sample: tuple[str, ...]
    kymas: tuple[KymaPreview, ...]


def sums_of(release: Release, outcomes: Iterable[KymaPreview | None], *, sample: int) -> Sums:
    """Count what a release means for each Kyma; None for one that it does not concern."""
    every = list(outcomes)
    kymas = [each for each in every if each is not None]
    times = {each.kyma: each.at for each in kymas if each.at is not None}
    have_it = [each for each in kymas if not each.gets_it and each.before == release.version and not each.reason]
    held_back: dict[str, list[KymaPreview]] = {}
    for each in kymas:
        if not each.gets_it and (each.before != release.version or each.reason):
            reason = each.reason if each.reason in held_back or len(held_back) < MAX_REASONS else "Other"
            held_back.setdefault(reason, []).append(each)
    return Sums(
        have_it=len(have_it),
        get_it=len(times),
        others=len(every) - len(kymas),
        first=min(times.values(), default=None),
        last=max(times.values(), default=None),
        versions=Counter(each.before or "none" for each in kymas if each.gets_it),
        held_back={
            reason: HeldBack(len(those), those[0].message, tuple(each.kyma for each in those[:EXAMPLES]))
            for reason, those in held_back.items()
        },
        sample=tuple(times)[:sample],
        kymas=tuple(kymas),
    )


def released(offer: Offer, release: Release) -> tuple[Offer, ModuleTemplate]:
    """Return the catalog as it would be after a release. Raises Problem where that is not possible."""
    name = template_name(release.module, release.version)
    template = offer.named(release.module, release.version)
    known = offer.releases.get(release.module)
    if known is None:
        raise unknown_module(release.module, offer.releases)
    if template is None and name in offer.disagreeing:
        raise Problem(f"ModuleTemplate {name} {offer.absence(release.module, release.version)}")
    if template is None:
        versions = sorted(each for each in offer.templates if each.startswith(f"{release.module}-"))
        there = ", ".join(versions[:10]) or "none"
        raise Problem(f"ModuleTemplate {name} does not exist; apply it first: it changes no cluster. There is: {there}")
    if known.spec.mandatory is not None:
        why = "a new version goes to all clusters, in waves where these are many"
        raise Problem(f"module {release.module} is mandatory and has no channel whose change can be previewed: {why}")
    channels = {each.channel: each.version for each in known.spec.channels}
    for channel in [release.channel] if release.channel else list(channels):
        channels[channel] = release.version
    entries = tuple(ChannelVersion(channel=name, version=version) for name, version in channels.items())
    spec = msgspec.structs.replace(known.spec, channels=entries)
    releases = {**offer.releases, release.module: msgspec.structs.replace(known, spec=spec)}
    return replace(offer, releases=releases), template


def outcome_for(kyma: Kyma, release: Release, offer: Offer, timing: Timing) -> KymaPreview | None:
    """Return what a release means for a Kyma; None where the Kyma does not have the module in this channel."""
    known = next((each for each in kyma.status.modules if each.name == release.module), None)
    if known is None or known.state is State.DELETING or (release.channel and known.channel != release.channel):
        return None
    name, before = kyma.metadata.name, known.version
    if kyma.metadata.is_paused:
        return KymaPreview(name, before, reason="Paused", message="its Kyma is paused")
    found, at = _resolution(kyma, known, offer, timing), timing.now
    if found.reason == ROLLOUT_PENDING and found.again is not None:
        at = found.again  # its turn; then a maintenance window may still have to be waited for
        found = _resolution(kyma, known, offer, replace(timing, now=at))
    return _outcome(name, before, found, at)


def _outcome(name: str, before: str, found: Resolution, now: datetime) -> KymaPreview:
    if found.reason == WAITS_FOR_MAINTENANCE and found.again is not None:
        return KymaPreview(name, before, at=found.again)
    if found.reason or found.version == before:
        return KymaPreview(name, before, reason=found.reason, message=found.message)
    return KymaPreview(name, before, at=now)


def _resolution(kyma: Kyma, known: KymaModuleStatus, offer: Offer, timing: Timing) -> Resolution:
    module = KymaModule(name=known.name, channel=known.channel or None, managed=known.state is not State.UNMANAGED)
    spec = KymaSpec(
        channel=kyma.status.active_channel or kyma.spec.channel,
        modules=(module,),
        skip_maintenance_windows=kyma.status.skip_maintenance_windows,
    )
    installed = {known.name: Installed(known.version, known.channel)} if known.version else {}
    (found,) = resolve(spec, kyma.metadata, offer=offer, installed=installed, timing=timing)
    return found


TITLES = ("HELD BACK BY", "KYMAS", "SUCH AS", "MESSAGE")
KYMA_TITLES = ("KYMA", "HAS", "GETS IT", "HELD BACK BY", "MESSAGE")


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
        if self.sums.held_back:
            _print_rows(screen, TITLES, _held_back_rows(self.sums))
        if self.waves is not None:
            _print_rows(screen, WAVE_TITLES, list(map(wave_row, self.waves)))
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
            versions = ", ".join(f"{version} ({count:,})" for version, count in Counter(sums.versions).most_common(5))
            yield plain(f"{counted(sums.get_it, 'Kyma')} would get it, instead of {versions}")
            if sums.first is not None and sums.last is not None:
                yield f"if it is released now: from {sums.first:%Y-%m-%d %H:%M:%S} to {sums.last:%Y-%m-%d %H:%M:%S} UTC"
        else:
            yield "no Kyma would get it"
        if sums.have_it:
            yield f"{counted(sums.have_it, 'Kyma')} already in this version"
        if sums.held_back:
            yield f"{counted(sum(each.count for each in sums.held_back.values()), 'Kyma')} held back"
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


def _held_back_rows(sums: Sums) -> list[tuple[str, ...]]:
    rows = sorted(sums.held_back.items(), key=lambda each: -each[1].count)
    return [(reason or "-", f"{each.count:,}", ", ".join(each.examples), each.message) for reason, each in rows]


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
    max_changed_clusters: str = "20%",
) -> int:
    """Print what a release would change. Nothing is written. Returns 1 where an object could not be read.

    A version that would reach more than `max_changed_clusters`, and has no strategy, goes out in the default waves.
    """
    left_out = LeftOut()
    templates, releases, strategies, rollouts = await asyncio.gather(
        kcp.list(MODULE_TEMPLATES, names.KCP_NAMESPACE, unreadable=left_out),
        kcp.list(DATED_RELEASE_METAS, names.KCP_NAMESPACE, unreadable=left_out),
        kcp.list(ROLLOUT_STRATEGIES, names.KCP_NAMESPACE, unreadable=left_out),
        kcp.list(MODULE_ROLLOUTS, names.KCP_NAMESPACE, unreadable=left_out),
    )
    require_not_taken_back(release, releases.items, rollouts.items)
    offer, template = released(Offer.of(templates.items, releases.items), release)
    now = datetime.now(UTC)
    strategy = strategy_of(release, releases.items, strategies.items)
    in_force = strategy or default_of(strategies.items)
    spread = timedelta() if strategy is not None else rules.max_delay
    timing = Timing(now, {release.module: now}, spread, rules.policy, min_window=timedelta(minutes=20))
    outcomes: list[KymaPreview | None] = []
    members: dict[str, list[str]] = {}
    async for page in kcp.pages(KYMAS, names.KCP_NAMESPACE, unreadable=left_out):
        for kyma in page.items:
            outcome = outcome_for(kyma, release, offer, timing)
            outcomes.append(outcome)
            if outcome is not None and outcome.gets_it:
                members.setdefault(wave_of(in_force, kyma.metadata.labels), []).append(kyma.metadata.name)
    sums = sums_of(release, outcomes, sample=sample)
    clusters = [await _compared(kcp, each, offer, template, namespace) for each in sums.sample]
    in_waves = strategy is not None or sums.get_it > max_changed(max_changed_clusters, len(sums.kymas) + sums.others)
    found = ReleasePreview(
        release=release,
        sums=sums,
        lacks_windows=template.spec.requires_downtime and rules.policy is None,
        waves=tuple(waves_of(in_force, release, members, now)) if in_waves else None,
        clusters=tuple(clusters),
    )
    print_document(found, screen)
    return left_out.code


async def _compared(kcp: Client, name: str, offer: Offer, template: ModuleTemplate, namespace: str) -> SampledCluster:
    """Return what the version would change in one cluster; one that can't be compared does not end the preview."""
    try:
        wanted = await wanted_after(kcp, name, offer, template, namespace)
        return SampledCluster(name, await compare(kcp, name, wanted, namespace))
    except (Problem, KubeError) as problem:
        return SampledCluster(name, error=plain(problem))
