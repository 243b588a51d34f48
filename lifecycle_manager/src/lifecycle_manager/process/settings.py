"""The options of the process itself: its addresses, its requests to KCP, retries, logs and traces."""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from lifecycle_manager.contract.options import (
    BindAddress,
    Duration,
    OtlpEndpoint,
    Rate,
    Share,
    burst_of,
    fips_only_option,
    option,
    trace_sampling_ratio_option,
)
from lifecycle_manager_api import names

if TYPE_CHECKING:
    from kube_runtime import ClientOptions, ManagerOptions, RuntimeMetrics
    from kyma_diagnostics import TracingOptions

LogLevel = Literal["DEBUG", "INFO", "WARNING", "ERROR"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSettings:
    """See the help of each option."""

    kubeconfig: Path | None = option(None, "kubeconfig", "kubeconfig of KCP; default: the identity of the Pod")
    metrics: BindAddress = option(("", 8080), "metrics-bind-address", "listen address for /metrics")
    probes: BindAddress = option(("", 8081), "health-probe-bind-address", "listen address for /healthz and /readyz")
    kyma_metrics: bool = option(
        False, "kyma-metrics", "also the metrics of upstream with several series for each Kyma and each of its modules"
    )
    failure_max_delay: Duration = option(timedelta(seconds=5), "failure-max-delay", "maximum delay after failures")
    sync_timeout: Duration = option(timedelta(minutes=2), "cache-sync-timeout", "timeout of the first lists at start")
    qps: Rate = option(1000.0, "k8s-client-qps", "requests per second to KCP, with bursts of twice as many")
    fips_only: bool = fips_only_option()
    otlp_endpoint: OtlpEndpoint = option(
        "",
        "otlp-endpoint",
        "URL of an OpenTelemetry collector, such as http://collector:4318, for traces of changes by OTLP/HTTP; needs "
        "the extra `tracing`. Default: no traces",
    )
    trace_sampling_ratio: Share = trace_sampling_ratio_option()
    debug_socket: Path | None = option(
        None, "debug-socket", "Unix socket at which `klm debug` asks this process. Default: there is none"
    )
    log_level: LogLevel = option("INFO", "log-level", "minimum level of log lines")
    log_format: Literal["auto", "json", "console"] = option(
        "auto", "log-format", "json, or console with colours; auto depends on the terminal"
    )

    @property
    def manager(self) -> "ManagerOptions":
        """The options of what all controllers have in common."""
        from kube_runtime import ManagerOptions, RetryPolicy

        retry = RetryPolicy(max_seconds=self.failure_max_delay.total_seconds())
        return ManagerOptions(
            name=names.LIFECYCLE_MANAGER,
            retry=retry,
            probes=(self.probes, self.metrics),
            sync_timeout_seconds=self.sync_timeout.total_seconds(),
            trace_annotation=names.TRACEPARENT,
        )

    def kcp_options(self, metrics: "RuntimeMetrics") -> "ClientOptions":
        """Return the limits of requests to KCP, which are counted in `metrics`."""
        from kube_runtime import ClientOptions

        return ClientOptions(qps=self.qps, burst=burst_of(self.qps), metrics=metrics)

    def tracing(self, replica: str) -> "TracingOptions":
        """Return where traces are sent, and which."""
        from kyma_diagnostics import TracingOptions

        return TracingOptions(names.LIFECYCLE_MANAGER, self.otlp_endpoint, self.trace_sampling_ratio, instance=replica)
