"""`klm diff`: reads what is wanted, and compares it with the cluster by a dry run on its API server."""

from collections.abc import Iterable, Sequence

from kube_runtime import Client
from kube_runtime.apply.difference import ObjectDifference
from kyma_fleet.comparison.reading import WantedSet, applier_objects, cluster_of, wanted_sets
from kyma_fleet.comparison.report import print_differences, summary
from kyma_fleet.running import FAILED
from kyma_fleet.screen import Screen


async def diff(kcp: Client, screen: Screen, kyma: str, module: str, namespace: str) -> int:
    """Print what would change. Returns 0 where nothing does, 1 where something does, 2 where it is not known."""
    wanted = await wanted_sets(kcp, kyma, module, namespace)
    async with cluster_of(kcp, kyma) as skr:
        actions = {each.action for each in await compare(skr, screen, wanted, namespace)}
    return FAILED if "fail" in actions else 1 if actions - {"none"} else 0


async def compare(
    skr: Client, screen: Screen, wanted: Iterable[WantedSet], namespace: str
) -> Sequence[ObjectDifference]:
    """Print and return what would change in a cluster."""
    found: list[ObjectDifference] = []
    for each in wanted:
        applier = applier_objects(skr, each, namespace).applier
        differences = await applier.difference(each.objects, each.inventory)
        print_differences(differences, screen)
        found += differences
    screen.print(summary(found))
    return found
