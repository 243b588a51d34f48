"""The process itself: its addresses, its requests to KCP, retries, logs and traces."""

from datetime import timedelta
from typing import Literal

from pydantic import Field

from lifecycle_manager.options.model import DomainSettings
from lifecycle_manager.options.shared import FipsOnly, TraceSamplingRatio
from lifecycle_manager.options.types import BindAddress, OptionalPath, OtlpEndpoint, PositiveDuration, Rate

LogLevel = Literal["DEBUG", "INFO", "WARNING", "ERROR"]


class ProcessSettings(DomainSettings):
    """See the help of each option."""

    kubeconfig: OptionalPath = Field(
        default=None, validation_alias="kubeconfig", description="kubeconfig of KCP; default: the identity of the Pod"
    )
    metrics: BindAddress = Field(
        default=("", 8080), validation_alias="metrics-bind-address", description="listen address for /metrics"
    )
    probes: BindAddress = Field(
        default=("", 8081),
        validation_alias="health-probe-bind-address",
        description="listen address for /healthz and /readyz",
    )
    kyma_metrics: bool = Field(
        default=False,
        validation_alias="kyma-metrics",
        description="also the metrics of upstream with several series for each Kyma and each of its modules",
    )
    failure_max_delay: PositiveDuration = Field(
        default=timedelta(seconds=5), validation_alias="failure-max-delay", description="maximum delay after failures"
    )
    sync_timeout: PositiveDuration = Field(
        default=timedelta(minutes=2),
        validation_alias="cache-sync-timeout",
        description="timeout of the first lists at start",
    )
    qps: Rate = Field(
        default=1000.0,
        validation_alias="k8s-client-qps",
        description="requests per second to KCP, with bursts of twice as many",
    )
    fips_only: FipsOnly = False
    otlp_endpoint: OtlpEndpoint = Field(
        default="",
        validation_alias="otlp-endpoint",
        description="URL of an OpenTelemetry collector, such as http://collector:4318, for traces of changes by "
        "OTLP/HTTP; needs the extra `tracing`. Default: no traces",
    )
    trace_sampling_ratio: TraceSamplingRatio = 0.01
    debug_socket: OptionalPath = Field(
        default=None,
        validation_alias="debug-socket",
        description="Unix socket at which `klm debug` asks this process. Default: there is none",
    )
    log_level: LogLevel = Field(default="INFO", validation_alias="log-level", description="minimum level of log lines")
    log_format: Literal["auto", "json", "console"] = Field(
        default="auto",
        validation_alias="log-format",
        description="json, or console with colours; auto depends on the terminal",
    )
