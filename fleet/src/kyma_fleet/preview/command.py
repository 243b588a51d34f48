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
from kyma_fleet.preview.report import print_markdown, print_sums
from kyma_fleet.problems import Problem, line_for
from kyma_fleet.screen import Screen
from kyma_fleet.text import plain
from lifecycle_manager.contract.resources import DATED_RELEASE_METAS, KYMAS, MODULE_TEMPLATES
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
    templates, releases = await asyncio.gather(
        kcp.list(MODULE_TEMPLATES, names.KCP_NAMESPACE), kcp.list(DATED_RELEASE_METAS, names.KCP_NAMESPACE)
    )
    offer, template = released(Offer.of(templates.items, releases.items), release)
    now = datetime.now(UTC)
    timing = Timing(now, {release.module: now}, rules.max_delay, rules.policy, min_window=timedelta(minutes=20))
    sums = Sums(sample_size=sample)
    async for page in kcp.pages(KYMAS, names.KCP_NAMESPACE):
        for kyma in page.items:
            sums.add(release, outcome_for(kyma, release, offer, timing))
    has_policy = rules.policy is not None
    if output == "markdown":
        print_markdown(release, template, sums, screen, has_policy=has_policy)
    else:
        print_sums(release, template, sums, screen, has_policy=has_policy)
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
