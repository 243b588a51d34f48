"""`klm adopt`: what the takeover of a control plane needs an administrator for."""

import random

from kube_runtime import Client, KubeconfigPolicy
from kyma_fleet.documents import print_document
from kyma_fleet.running import each_of
from kyma_fleet.screen import LeftOut, Screen
from kyma_takeover.adoption.cluster import report_of
from kyma_takeover.adoption.findings import all_options, obstacles_of, rows_of
from kyma_takeover.adoption.reading import read_control_plane
from kyma_takeover.adoption.report import AdoptionCounts, AdoptionReport

CLUSTERS_AT_ONCE = 5


async def check(
    kcp: Client,
    screen: Screen,
    *,
    sample: int,
    lease_namespace: str,
    ca_namespace: str,
    policy: KubeconfigPolicy,
) -> int:
    """Print what a takeover would find and change. Nothing is written. Returns 1 where something is in the way."""
    seen = await read_control_plane(
        kcp, lease_namespace=lease_namespace, ca_namespace=ca_namespace, policy=policy, left_out=LeftOut()
    )
    reachable = sorted(seen.counts.kymas & seen.counts.accesses.keys())
    chosen = random.sample(reachable, min(sample, len(reachable)))
    clusters = await each_of(sorted(chosen), lambda kyma: report_of(kcp, kyma, policy), at_once=CLUSTERS_AT_ONCE)
    options = all_options(seen.deployments)
    report = AdoptionReport(
        api_server=seen.server_version,
        former=tuple(seen.deployments),
        counts=AdoptionCounts.of(seen),
        rows=tuple(rows_of(seen)),
        options=tuple(options),
        clusters=tuple(clusters),
        in_the_way=tuple(obstacles_of(seen, options, clusters)),
    )
    print_document(report, screen)
    return 1 if report.in_the_way else 0
