"""What the runtime gets from the options of the process."""

from kube_runtime import ClientOptions, ManagerOptions, RetryPolicy, RuntimeMetrics
from lifecycle_manager.options.process import ProcessSettings
from lifecycle_manager.options.types import burst_of
from lifecycle_manager_api import names

MAX_IN_BACKGROUND = 6
"""So many requests of a replica keep an API server busy; each further one would have users wait for its answer."""


def manager_options(process: ProcessSettings) -> ManagerOptions:
    """Return what all controllers have in common."""
    return ManagerOptions(
        name=names.LIFECYCLE_MANAGER,
        retry=RetryPolicy(max_seconds=process.failure_max_delay.total_seconds()),
        probes=(process.probes, process.metrics),
        sync_timeout_seconds=process.sync_timeout.total_seconds(),
        trace_annotation=names.TRACEPARENT,
    )


def kcp_options(process: ProcessSettings, metrics: RuntimeMetrics) -> ClientOptions:
    """Return the limits of requests to KCP, which are counted in `metrics`."""
    return ClientOptions(
        qps=process.qps, burst=burst_of(process.qps), max_in_background=MAX_IN_BACKGROUND, metrics=metrics
    )
