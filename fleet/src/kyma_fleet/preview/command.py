"""`klm preview`: reads the catalog and the fleet, page by page, and a sample of clusters where one is asked for."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Literal

from kube_runtime import Client, KubeError
from kyma_fleet.comparison.command import compare
from kyma_fleet.comparison.reading import cluster_of, wanted_after
from kyma_fleet.explanation.reading import Rules
from kyma_fleet.preview.plan import Release, Sums, outcome_for, released
from kyma_fleet.preview.report import print_markdown, print_sums, print_waves
from kyma_fleet.preview.waves import WavesForecast, strategy_of
from kyma_fleet.problems import Problem, line_for
from kyma_fleet.screen import Screen
from kyma_fleet.text import plain
from lifecycle_manager.contract.resources import DATED_RELEASE_METAS, KYMAS, MODULE_TEMPLATES, ROLLOUT_STRATEGIES
from lifecycle_manager.module_catalog import Offer
from lifecycle_manager.rollout import Timing
from lifecycle_manager_api import ModuleTemplate, names


async def preview(
    kcp: Client,
    screen: Screen,
    release: Release,
    rules: Rules,
    *,
    sample: int,
    output: Literal["table", "markdown"],
    namespace: str,
) -> int:
    """Print what a release would change. Nothing is written."""
    templates, releases, strategies = await asyncio.gather(
        kcp.list(MODULE_TEMPLATES, names.KCP_NAMESPACE),
        kcp.list(DATED_RELEASE_METAS, names.KCP_NAMESPACE),
        kcp.list(ROLLOUT_STRATEGIES, names.KCP_NAMESPACE),
    )
    offer, template = released(Offer.of(templates.items, releases.items), release)
    now = datetime.now(UTC)
    strategy = strategy_of(release, releases.items, strategies.items)
    waves = WavesForecast.of(strategy, release, now) if strategy is not None else None
    spread = timedelta() if waves is not None else rules.max_delay
    timing = Timing(now, {release.module: now}, spread, rules.policy, min_window=timedelta(minutes=20))
    sums = Sums(sample_size=sample)
    async for page in kcp.pages(KYMAS, names.KCP_NAMESPACE):
        for kyma in page.items:
            outcome = outcome_for(kyma, release, offer, timing)
            sums.add(release, outcome)
            if waves is not None:
                waves.add(kyma, outcome)
    has_policy = rules.policy is not None
    if output == "markdown":
        print_markdown(release, template, sums, screen, has_policy=has_policy)
    else:
        print_sums(release, template, sums, screen, has_policy=has_policy)
    if waves is not None:
        print_waves(waves, screen, as_markdown=output == "markdown")
    for name in sums.sample:
        screen.print(f"\n{'#### ' if output == 'markdown' else ''}objects in the cluster of {plain(name)}")
        await _compare_one(kcp, screen, name, offer, template, output=output, namespace=namespace)
    return 0


async def _compare_one(
    kcp: Client,
    screen: Screen,
    name: str,
    offer: Offer,
    template: ModuleTemplate,
    *,
    output: str,
    namespace: str,
) -> None:
    """Print what the version would change in one cluster; a cluster that can't be compared does not end the preview."""
    fence = output == "markdown"
    if fence:
        screen.print("```diff")
    try:
        wanted = await wanted_after(kcp, name, offer, template, namespace)
        async with cluster_of(kcp, name) as skr:
            await compare(skr, replace(screen, colour=screen.colour and not fence), wanted, namespace)
    except (Problem, KubeError) as problem:
        screen.print(line_for(problem))
    if fence:
        screen.print("```")
