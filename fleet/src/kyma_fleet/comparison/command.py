"""`klm diff`: reads what is wanted, and compares it with the cluster by a dry run on its API server."""

from collections.abc import Iterable

from kube_runtime import Client
from kube_runtime.apply.difference import ObjectDifference
from kyma_fleet.comparison.reading import WantedSet, applier_objects, cluster_of, wanted_sets
from kyma_fleet.comparison.report import ClusterComparison, ComparedObject
from kyma_fleet.documents import print_document
from kyma_fleet.running import FAILED
from kyma_fleet.screen import Screen


async def diff(kcp: Client, screen: Screen, kyma: str, module: str, namespace: str) -> int:
    """Print what would change. Returns 0 where nothing does, 1 where something does, 2 where it is not known."""
    wanted = await wanted_sets(kcp, kyma, module, namespace)
    async with cluster_of(kcp, kyma) as skr:
        found = await compare(skr, kyma, wanted, namespace)
    print_document(found, screen)
    actions = {each.action for each in found.objects}
    return FAILED if "fail" in actions else 1 if actions - {"none"} else 0


async def compare(skr: Client, kyma: str, wanted: Iterable[WantedSet], namespace: str) -> ClusterComparison:
    """Return what would change in a cluster."""
    found: list[ObjectDifference] = []
    for each in wanted:
        applier = applier_objects(skr, each, namespace).applier
        found += await applier.difference(each.objects, each.inventory)
    return ClusterComparison(kyma=kyma, objects=tuple(map(ComparedObject.of, found)))
