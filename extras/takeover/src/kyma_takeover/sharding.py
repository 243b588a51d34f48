"""How the owners are shared among the replicas of this version, for the shardings that have less of them."""

from kube_runtime import Sharding
from kube_runtime.leases.membership import Membership
from kube_runtime.sharding import Work


class ShardingOfReplicas:
    """A sharding among `replicas`; a subclass says which of their owners it has."""

    def __init__(self, replicas: Sharding) -> None:
        self.replicas = replicas
        self._work: Work | None = None

    @property
    def membership(self) -> Membership | None:
        """By which the replicas share the work."""
        return self.replicas.membership

    @property
    def has_begun(self) -> bool:
        """Tell whether the replica has begun with its share."""
        return self.replicas.has_begun

    def check(self) -> None:
        """Raise LeaseLost where this replica must not write."""
        self.replicas.check()

    async def run(self, work: Work) -> None:
        """Share the work until cancelled."""
        self._work = work
        await self.replicas.run(work)
