"""`klm preview`: reads the catalog and the fleet, page by page, and a sample of clusters where one is asked for."""

import asyncio
from datetime import UTC, datetime, timedelta

from kube_runtime import Client, KubeError
from kyma_fleet.comparison.command import compare
from kyma_fleet.comparison.reading import cluster_of, wanted_after
from kyma_fleet.documents import print_document
from kyma_fleet.explanation.reading import Rules
from kyma_fleet.preview.plan import Release, Sums, outcome_for, released
from kyma_fleet.preview.report import ReleasePreview, SampledCluster, WavePreview
from kyma_fleet.preview.waves import WavesForecast, default_of, strategy_of
from kyma_fleet.problems import Problem
from kyma_fleet.screen import Screen
from kyma_fleet.text import plain
from lifecycle_manager.contract.resources import DATED_RELEASE_METAS, KYMAS, MODULE_TEMPLATES, ROLLOUT_STRATEGIES
from lifecycle_manager.module_catalog import Offer
from lifecycle_manager.rollout import Timing
from lifecycle_manager.skr.brake import max_changed
from lifecycle_manager_api import ModuleTemplate, names


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
