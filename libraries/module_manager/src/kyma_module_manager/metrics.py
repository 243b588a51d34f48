"""The metrics of a Module Manager."""

from prometheus_client import CollectorRegistry, Counter, GCCollector, Histogram, PlatformCollector, ProcessCollector

from kube_runtime import RuntimeMetrics

BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class ManagerMetrics:
    """The metrics of one manager in a registry, with those of the runtime and the process."""

    def __init__(self, module: str) -> None:
        self.registry = CollectorRegistry()
        self.runtime = RuntimeMetrics()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self._module = module
        self._renderings = self._counter(
            "module_manager_renderings", "Runs of the module's function by result.", "result"
        )
        self.sync_resources_written = self._counter(
            "module_manager_sync_resources_written", "SyncResources written."
        ).labels(module)
        self.status_written = self._counter("module_manager_status_written", "Status of ModuleConfigs written.").labels(
            module
        )
        self.render_seconds = self._histogram(
            "module_manager_render_seconds", "Time to turn the text of a Module CR into objects."
        ).labels(module)
        self.reaction_seconds = self._histogram(
            "module_manager_reaction_seconds",
            "Time from the watch event of a ModuleConfig until its SyncResource is written.",
        ).labels(module)

    def rendered(self, result: str) -> None:
        """Count a run of the function; the result is `Rendered` or the reason of its failure."""
        self._renderings.labels(self._module, result).inc()

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, ("module", *labels), registry=self.registry)

    def _histogram(self, name: str, text: str) -> Histogram:
        return Histogram(name, text, ("module",), buckets=BUCKETS, registry=self.registry)
