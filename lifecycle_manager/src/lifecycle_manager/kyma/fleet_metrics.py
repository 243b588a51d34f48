"""The states of Kymas and modules as metrics, counted in the caches at the time of a scrape.

The number of series depends on the modules that are offered and not on the clusters: a fleet has tens of thousands of
modules, and the names that a user writes into a Kyma are anybody's. Upstream's series, several for each Kyma, are an
option.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kube_runtime import Manager
from lifecycle_manager.contract.conditions import event_path_fault, is_deletion_held
from lifecycle_manager.contract.fleet import ClusterSummary, counts_of
from lifecycle_manager.contract.resources import KYMAS, MANIFESTS, SYNC_RESOURCES
from lifecycle_manager.module_catalog.controller import Offers
from lifecycle_manager.module_catalog.identity import module_of, version_of
from lifecycle_manager.module_catalog.manifests import is_mandatory_manifest, kyma_of_manifest, module_of_manifest
from lifecycle_manager.module_catalog.offer import Offer
from lifecycle_manager.module_catalog.verdicts import is_unverified
from lifecycle_manager.process.telemetry import show_fips_mode
from lifecycle_manager_api import Kyma, Manifest, State, SyncResource, names

Key = TypeVar("Key", bound=tuple[str, ...])

OF_KYMAS = (State.READY, State.PROCESSING, State.ERROR, State.DELETING, State.WARNING)
OF_MODULES = (*OF_KYMAS, State.UNMANAGED)
"""The states in upstream's metrics of Kymas and mandatory modules, and of the modules that users choose."""


@dataclass(frozen=True, eq=False)
class FleetCollector(Collector):
    """The states of Kymas and modules.

    Nothing is stored, so the samples of deleted Kymas disappear. Each replica reports its own Kymas, so sums over the
    replicas are right. With `each_kyma` there are upstream's series as well.
    """

    kymas: Callable[[], Iterable[Kyma]]
    manifests: Callable[[], Iterable[Manifest]]
    sync_resources: Callable[[], Iterable[SyncResource]]
    offers: Offers
    owns: Callable[[str], bool]
    each_kyma: bool = False

    def collect(self) -> Iterator[Metric]:
        """Give the metrics. Called in the thread of the metrics server."""
        kymas = [kyma for kyma in self.kymas() if self.owns(kyma.metadata.name)]
        mandatory = [each for each in self.manifests() if is_mandatory_manifest(each)]
        manifests = [each for each in mandatory if self.owns(kyma_of_manifest(each))]
        yield _gauge("lifecycle_mgr_replica_kymas", "Kymas of this replica.", (), {(): len(kymas)})
        offer = self.offers.current()
        yield from _counts(kymas, manifests, offer)
        yield self._held(kymas)
        count = len(offer.mandatory)
        yield _gauge("lifecycle_mgr_mandatory_modules", "Number of mandatory modules.", (), {(): count})
        unverified = [(module_of(each), version_of(each)) for each in offer.templates.values() if is_unverified(each)]
        yield _gauge(
            "lifecycle_mgr_modules_unverified",
            "Versions of modules that are not signed as their ModulePolicy requires.",
            ("module_name", "version"),
            dict.fromkeys(unverified, 1),
        )
        if self.each_kyma:
            yield from _of_each_kyma(kymas, manifests)

    def _held(self, kymas: Iterable[Kyma]) -> Metric:
        manifests = (each for each in self.manifests() if is_deletion_held(each) and self.owns(kyma_of_manifest(each)))
        resources = (each for each in self.sync_resources() if is_deletion_held(each) and self.owns(each.spec.kyma))
        held = Counter((each.kind,) for each in (*filter(is_deletion_held, kymas), *manifests, *resources))
        return _gauge("lifecycle_mgr_deletions_held", "Objects whose deletion waits for klm continue.", ("kind",), held)


def setup(manager: Manager, offers: Offers, *, each_kyma: bool, fips_only: bool) -> None:
    """Register the metrics of the fleet, and of this process."""
    show_fips_mode(manager.registry, only=fips_only)
    kymas, manifests = manager.informer(KYMAS), manager.informer(MANIFESTS)
    collector = FleetCollector(
        kymas.list,
        manifests.list,
        manager.informer(SYNC_RESOURCES, namespace=None).list,
        offers,
        manager.sharding.owns,
        each_kyma=each_kyma,
    )
    manager.registry.register(collector)


def _counts(kymas: Sequence[Kyma], mandatory: Iterable[Manifest], offer: Offer) -> Iterator[Metric]:
    counts, channels = counts_of(map(ClusterSummary.of, kymas)), _channels_of(offer)
    states = {(state.value,): count for state, count in counts.states.items()}
    modules: Counter[tuple[str, ...]] = Counter()
    for each, count in counts.modules.items():  # users make up channels as well
        channel = each.channel if (each.name, each.channel) in channels else ""
        modules[each.name, channel, each.version, each.state.value] += count
    manifests = Counter((module_of_manifest(each), each.spec.version, each.status.state.value) for each in mandatory)
    faults = ((each.metadata.name, event_path_fault(each)) for each in kymas)
    yield _gauge("lifecycle_mgr_kymas", "Kymas in a state.", ("state",), states)
    yield _gauge(
        "lifecycle_mgr_modules",
        "Modules of Kymas in a version and a state; without a name where one is neither offered nor installed, "
        "or a channel that is not offered.",
        ("module_name", "channel", "version", "state"),
        modules,
    )
    yield _gauge(
        "lifecycle_mgr_mandatory_manifests",
        "Kymas with a mandatory module in a version and a state.",
        ("module_name", "version", "state"),
        manifests,
    )
    yield _gauge(
        "lifecycle_mgr_skr_event_path_broken",
        "Clusters whose changes are not reported by events, and why; one without a sample has no such fault.",
        ("kyma_name", "reason"),
        {(name, fault.reason): 1 for name, fault in faults if fault is not None},
    )


def _channels_of(offer: Offer) -> Collection[tuple[str, str]]:
    """Return the channels of all modules."""
    released = ((name, each.channel) for name, release in offer.releases.items() for each in release.spec.channels)
    return {*offer.by_channel, *released}


def _of_each_kyma(kymas: Iterable[Kyma], mandatory: Iterable[Manifest]) -> Iterator[Metric]:
    """Give upstream's metrics: of each Kyma and module a sample of every state, 1 for the present one, else 0."""
    whole: dict[tuple[str, ...], int] = {}
    parts: dict[tuple[str, ...], int] = {}
    for kyma in kymas:
        name, labels = kyma.metadata.name, kyma.metadata.labels
        shoot = kyma.metadata.annotations.get(names.SKR_DOMAIN, "").removeprefix("*.").partition(".")[0]
        cluster = (shoot, labels.get(names.INSTANCE_ID, ""))
        for state in OF_KYMAS:
            whole[(name, state.value, *cluster)] = int(kyma.status.state is state)
        for module in kyma.status.modules:
            for state in OF_MODULES:
                parts[(module.name, name, state.value, *cluster)] = int(module.state is state)
    of_mandatory = {
        (module_of_manifest(each), kyma_of_manifest(each), state.value): int(each.status.state is state)
        for each in mandatory
        for state in OF_KYMAS
    }
    cluster_labels = ("shoot", "instance_id")
    yield _gauge("lifecycle_mgr_kyma_state", "State of a Kyma.", ("kyma_name", "state", *cluster_labels), whole)
    yield _gauge(
        "lifecycle_mgr_module_state",
        "State of a module in a Kyma.",
        ("module_name", "kyma_name", "state", *cluster_labels),
        parts,
    )
    yield _gauge(
        "lifecycle_mgr_mandatory_module_state",
        "State of a mandatory module in a Kyma.",
        ("module_name", "kyma_name", "state"),
        of_mandatory,
    )


def _gauge(name: str, meaning: str, labels: Iterable[str], values: Mapping[Key, int]) -> Metric:
    family = GaugeMetricFamily(name, meaning, labels=tuple(labels))
    for key, value in values.items():
        family.add_metric(key, value)
    return family
