"""The simulated user clusters of an hour that either Lifecycle Manager manages, as those of a day.

A user's change counts as in force once the status of the Kyma in the cluster has it. Run by `benchmarks.day.go_hour`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

import uvloop

from benchmarks.day.cluster_rules import StatusObserver, Workloads
from benchmarks.day.clusters import DayClusters, UserCluster, parser_of, serve
from benchmarks.day.watchers import FleetWatcher, GoWatcher
from benchmarks.processes.fleet_documents import Document
from benchmarks.processes.user_clusters import RequestCounts
from kube_simulation import Rule, SimulatedCluster
from lifecycle_manager_api import names

CONFIG_MAPS = f"/api/v1/namespaces/{names.SKR_NAMESPACE}/configmaps"


@dataclass(eq=False)
class HourClusters(DayClusters):
    """Clusters whose users add and remove a module."""

    watcher: type[FleetWatcher] = FleetWatcher
    module_share: float = 1.0
    requests: RequestCounts = field(default_factory=RequestCounts)

    def user_of(self, number: int, cluster: SimulatedCluster) -> UserCluster:
        observer = StatusObserver(cluster.name, self.changes, self.writes)
        return UserCluster(number, cluster, self.watcher(self.port), observer)

    def rules_of(self, user: UserCluster) -> Iterator[Rule]:
        yield self.requests
        yield user.observer
        yield Workloads(user.cluster, user.watcher)

    def _toggle(self, user: UserCluster) -> bool:
        assert isinstance(user.observer, StatusObserver)
        return user.observer.was_ready and super()._toggle(user)

    def _counts(self) -> Document:
        return dict(self.requests.counts)

    def _lacking(self, module: str, version: str) -> Document:
        """Return the clusters that can be reached and do not have a version of a module."""
        lacking = []
        for name, each in self.clusters.items():
            live = each.live(f"{CONFIG_MAPS}/{module}")
            if each.outage is None and (live is None or live["data"]["version"] != version):
                lacking.append(name)
        return {"lacking": sorted(lacking)}


if __name__ == "__main__":
    parser = parser_of(__doc__)
    parser.add_argument("--module", required=True, help="that users add and remove")
    parser.add_argument("--go", action="store_true", help="Watchers of the Go version")
    options = parser.parse_args()
    watcher = GoWatcher if options.go else FleetWatcher
    uvloop.run(serve(options, partial(HourClusters, optional=options.module, watcher=watcher)))
