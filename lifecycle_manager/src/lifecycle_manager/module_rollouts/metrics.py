"""The rollouts as metrics, counted in the cache at a scrape. Each replica reports those that are its own."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import get_args

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from lifecycle_manager.rollout.releases import by_channel
from lifecycle_manager.rollout.waves import Standing
from lifecycle_manager_api import ModuleRollout

CHANNEL_LABELS = ("module_name", "channel", "version")


@dataclass(frozen=True, eq=False)
class RolloutCollector(Collector):
    """The phase of the latest rollout of each channel, and its clusters by how they count.

    An earlier one may be of the same version, such as before an undo: a series must not be there twice.
    """

    rollouts: Callable[[], Iterable[ModuleRollout]]
    owns: Callable[[ModuleRollout], bool]

    def collect(self) -> Iterator[Metric]:
        """Give the metrics. Called in the thread of the metrics server."""
        phases = GaugeMetricFamily(
            "lifecycle_mgr_rollout_phase", "Rollouts in a phase.", labels=(*CHANNEL_LABELS, "phase")
        )
        clusters = GaugeMetricFamily(
            "lifecycle_mgr_rollout_clusters",
            "Clusters of a rollout: waiting, held, under_way, soaking, healthy, failed or unreachable.",
            labels=(*CHANNEL_LABELS, "standing"),
        )
        channels = (each for module in by_channel(self.rollouts()).values() for each in module.values())
        for each, *_ in channels:
            if each.status.phase == "Superseded" or not self.owns(each):
                continue
            key = (each.spec.module_name, each.spec.channel, each.spec.version)
            phases.add_metric((*key, each.status.phase), 1)
            for standing in get_args(Standing):
                count = sum(getattr(wave, standing) for wave in each.status.waves)
                clusters.add_metric((*key, standing), count)
        yield from (phases, clusters)
