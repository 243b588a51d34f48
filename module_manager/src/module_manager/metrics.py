"""What a Module Manager counts and measures, by the names under which Prometheus finds it."""

from prometheus_client import Counter, Histogram

__all__ = ["REACTION_SECONDS", "RENDERINGS", "RENDER_SECONDS", "STATUS_WRITTEN", "SYNC_RESOURCES_WRITTEN"]

BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

RENDERINGS = Counter(
    "module_manager_renderings", "Runs of the module's function, by what came of them.", ("module", "result")
)
RENDER_SECONDS = Histogram(
    "module_manager_render_seconds", "Time from a Module CR's text to objects.", ("module",), buckets=BUCKETS
)
REACTION_SECONDS = Histogram(
    "module_manager_reaction_seconds",
    "Time from the watch event of a ModuleConfig to its SyncResource written.",
    ("module",),
    buckets=BUCKETS,
)
SYNC_RESOURCES_WRITTEN = Counter("module_manager_sync_resources_written", "SyncResources written.", ("module",))
STATUS_WRITTEN = Counter("module_manager_status_written", "Status of ModuleConfigs written.", ("module",))
