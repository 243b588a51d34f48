"""The states of Kymas and modules as metrics, from the caches at the time of a scrape."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import structlog
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kube_runtime import Change, Manager
from lifecycle_manager.kyma_conditions import event_path_fault
from lifecycle_manager.module_catalog import Offers, is_mandatory_manifest, kyma_of_manifest, module_of_manifest
from lifecycle_manager.module_namespaces import (
    Assignment,
    ModuleNamespaces,
    Namespace,
    assignment_changed,
    modules_of,
)
from lifecycle_manager.resources import KYMAS, MANIFESTS
from lifecycle_manager_api import Kyma, Manifest, names

log = structlog.get_logger("fleet")


@dataclass(frozen=True, eq=False)
class FleetCollector(Collector):
    """The states of Kymas and modules.

    Nothing is stored, so the samples of deleted Kymas disappear. Only the present state has a sample, with the value 1:
    a fleet has tens of thousands of modules. Each replica reports its own Kymas, so sums over the replicas are right.
    """

    kymas: Callable[[], Iterable[Kyma]]
    manifests: Callable[[], Iterable[Manifest]]
    offers: Offers
    owns: Callable[[str], bool]
    assignment: Callable[[], Assignment] = Assignment

    def collect(self) -> Iterator[Metric]:
        """Give the metrics. Called in the thread of the metrics server."""
        kymas = [kyma for kyma in self.kymas() if self.owns(kyma.metadata.name)]
        share = GaugeMetricFamily("lifecycle_mgr_replica_kymas", "Kymas of this replica.")
        share.add_metric([], len(kymas))
        yield share
        yield from _of_kymas(kymas)
        yield _event_path_faults(kymas)
        yield from self._of_mandatory_modules()
        yield _refused_namespaces(self.assignment())

    def describe(self) -> Iterator[Metric]:
        """Give no samples: they are known only at the time of a scrape."""
        yield from ()

    def _of_mandatory_modules(self) -> Iterator[Metric]:
        count = GaugeMetricFamily("lifecycle_mgr_mandatory_modules", "Number of mandatory modules.")
        count.add_metric([], len(self.offers.current().mandatory))
        states = GaugeMetricFamily(
            "lifecycle_mgr_mandatory_module_state",
            "State of a mandatory module in a Kyma.",
            labels=["module_name", "kyma_name", "state"],
        )
        for manifest in self.manifests():
            kyma = kyma_of_manifest(manifest)
            if is_mandatory_manifest(manifest) and self.owns(kyma):
                states.add_metric([module_of_manifest(manifest), kyma, str(manifest.status.state)], 1)
        yield count
        yield states


def _of_kymas(kymas: Iterable[Kyma]) -> Iterator[Metric]:
    whole = GaugeMetricFamily(
        "lifecycle_mgr_kyma_state", "State of a Kyma.", labels=["kyma_name", "state", "shoot", "instance_id"]
    )
    parts = GaugeMetricFamily(
        "lifecycle_mgr_module_state",
        "State of a module in a Kyma.",
        labels=["module_name", "kyma_name", "state", "shoot", "instance_id"],
    )
    for kyma in kymas:
        metadata = kyma.metadata
        cluster = [
            metadata.annotations.get(names.SKR_DOMAIN, "").removeprefix("*.").partition(".")[0],
            metadata.labels.get(names.INSTANCE_ID, ""),
        ]
        whole.add_metric([metadata.name, str(kyma.status.state), *cluster], 1)
        for module in kyma.status.modules:
            parts.add_metric([module.name, metadata.name, str(module.state), *cluster], 1)
    yield whole
    yield parts


def _event_path_faults(kymas: Iterable[Kyma]) -> Metric:
    faults = GaugeMetricFamily(
        "lifecycle_mgr_skr_event_path_broken",
        "Clusters whose changes are not reported by events, and why; one without a sample has no such fault.",
        labels=["kyma_name", "reason"],
    )
    for kyma in kymas:
        if (fault := event_path_fault(kyma)) is not None:
            faults.add_metric([kyma.metadata.name, fault.reason], 1)
    return faults


def _refused_namespaces(assignment: Assignment) -> Metric:
    refused = GaugeMetricFamily(
        "lifecycle_mgr_module_namespace_refused",
        "Namespaces whose label with the name of a module has no effect, and why.",
        labels=["namespace", "reason"],
    )
    for namespace, reason in assignment.refused.items():
        refused.add_metric([namespace, reason.value], 1)
    return refused


def setup(manager: Manager, offers: Offers) -> None:
    """Register the metrics of the fleet."""
    kymas, manifests = manager.informer(KYMAS), manager.informer(MANIFESTS)
    namespaces = ModuleNamespaces.watched_by(manager)
    collector = FleetCollector(
        kymas.list, manifests.list, offers=offers, owns=manager.sharding.owns, assignment=namespaces.assignment
    )
    manager.registry.register(collector)
    namespaces.informer.on_change(partial(_log_assignment, namespaces))


def _log_assignment(namespaces: ModuleNamespaces, change: Change[Namespace]) -> None:
    """Log which namespace a module has after a change, or why a label has no effect."""
    named = change.new or change.old
    if named is None or not assignment_changed(change):
        return
    assignment, name = namespaces.assignment(), named.metadata.name
    if (reason := assignment.refused.get(name)) is not None:
        log.warning("label of a namespace has no effect", namespace=name, module=named.module, reason=reason.value)
        return
    for module in sorted(modules_of(change)):
        log.info("namespace of a module", module=module, namespace=assignment.namespace_of(module))
