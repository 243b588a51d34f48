"""The lines of `klm preview`, for a terminal or as Markdown for a review of the release."""

from collections.abc import Iterator

from kyma_fleet.overview.tally import counted
from kyma_fleet.preview.plan import Release, Sums
from kyma_fleet.preview.waves import WavesForecast
from kyma_fleet.screen import LiveTable, Screen
from kyma_fleet.text import plain
from lifecycle_manager_api import ModuleTemplate

WAVE_TITLES = ("WAVE", "KYMAS", "AT A TIME", "MAY FAIL", "NOT BEFORE", "SUCH AS")
TITLES = ("HELD BACK BY", "KYMAS", "SUCH AS", "MESSAGE")


def print_sums(release: Release, template: ModuleTemplate, sums: Sums, screen: Screen, *, has_policy: bool) -> None:
    """Print what a release means for the fleet."""
    screen.print(screen.painted(_headline(release), bold=True))
    for line in _lines(template, sums, has_policy=has_policy):
        screen.print(f"  {line}")
    if sums.held:
        screen.print()
        LiveTable(screen, TITLES).print(_rows(sums))


def print_markdown(release: Release, template: ModuleTemplate, sums: Sums, screen: Screen, *, has_policy: bool) -> None:
    """Print the same as Markdown."""
    screen.print(f"### {_escaped(_headline(release))}\n")
    for line in _lines(template, sums, has_policy=has_policy):
        screen.print(f"- {_escaped(line)}")
    if sums.held:
        screen.print(f"\n| {' | '.join(title.lower() for title in TITLES)} |\n|{'---|' * len(TITLES)}")
        for row in _rows(sums):
            screen.print(f"| {' | '.join(map(_escaped, row))} |")


def print_waves(waves: WavesForecast, screen: Screen, *, as_markdown: bool) -> None:
    """Print the waves in their order, with what each waits for."""
    rows = [
        (
            each.plan.name,
            f"{each.count:,}",
            f"{each.plan.max_concurrent(each.count):,}",
            f"{each.plan.max_failures(each.count):,}",
            f"{each.begins:%m-%d %H:%M}" + (" and approval" if each.plan.rules.approval == "required" else ""),
            ", ".join(each.examples) or "-",
        )
        for each in waves.waves.values()
    ]
    screen.print()
    if not as_markdown:
        LiveTable(screen, WAVE_TITLES).print(rows)
        return
    screen.print(f"| {' | '.join(title.lower() for title in WAVE_TITLES)} |\n|{'---|' * len(WAVE_TITLES)}")
    for row in rows:
        screen.print(f"| {' | '.join(map(_escaped, row))} |")


def _headline(release: Release) -> str:
    where = f"channel {release.channel}" if release.channel else "all its channels"
    return plain(f"{release.module} {release.version} in {where}")


def _lines(template: ModuleTemplate, sums: Sums, *, has_policy: bool) -> Iterator[str]:
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
    if template.spec.requires_downtime and not has_policy:
        yield "it requires downtime: --maintenance-policy FILE, as of klm run, takes the windows into account"


def _rows(sums: Sums) -> Iterator[tuple[str, str, str, str]]:
    for reason, held in sorted(sums.held.items(), key=lambda each: -each[1].count):
        yield reason or "-", f"{held.count:,}", ", ".join(held.examples), held.message


def _escaped(text: str) -> str:
    """Return a text that Markdown takes as text: no table, link, image, code, emphasis or HTML begins in it."""
    return "".join(f"\\{each}" if each in "\\`*_[]<>|#!" else each for each in plain(text))
