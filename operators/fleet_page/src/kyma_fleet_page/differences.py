"""What a reconcile would change in a cluster, as `klm diff` finds it: for users who could read its access Secret."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from kube_runtime import Client
from kyma_fleet.comparison import ComparedObject, compare, wanted_sets
from kyma_fleet.problems import SECRETS as NEEDS_SECRETS
from kyma_fleet.problems import Problem
from kyma_fleet_page.access import ALL_NAMESPACES, MayList
from lifecycle_manager.contract.resources import MANIFESTS, SECRETS, SYNC_RESOURCES
from lifecycle_manager_api import names

SECONDS = 60
MAX_DIFFERENCES, MAX_LINES = 100, 500
NEEDED = (
    (SECRETS, names.KCP_NAMESPACE),
    (MANIFESTS, names.KCP_NAMESPACE),
    (SYNC_RESOURCES, ALL_NAMESPACES),
)
"""What a user has to be able to list: the difference shows objects of the cluster, and those that are wanted there."""


@dataclass(frozen=True, slots=True)
class Differences:
    """Compares by dry runs on the API servers of clusters. `namespace` is that of objects that name none."""

    kcp: Client
    reading: asyncio.Semaphore
    namespace: str

    async def of(self, kyma: str, module: str, may_list: MayList) -> Sequence[ComparedObject]:
        """Return what would change of a module in a cluster. Raises Problem, KubeError."""
        for resource, namespace in NEEDED:
            if not await may_list(resource, namespace):
                raise Problem(f"you may not list {resource.plural}; {NEEDS_SECRETS}")
        try:
            async with self.reading, asyncio.timeout(SECONDS):
                wanted = await wanted_sets(self.kcp, kyma, module, self.namespace)
                found = await compare(self.kcp, kyma, wanted, self.namespace)
        except TimeoutError:
            raise Problem(f"the cluster of Kyma {kyma} took more than {SECONDS} s to compare") from None
        except OSError as error:  # no space for the layer of a module
            raise Problem(f"module {module} of Kyma {kyma} cannot be read: {error}; use klm diff") from None
        return [replace(each, lines=each.lines[:MAX_LINES]) for each in found.changes[:MAX_DIFFERENCES]]
