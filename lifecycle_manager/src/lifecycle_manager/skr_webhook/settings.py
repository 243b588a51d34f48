"""The options of Watchers."""

from dataclasses import dataclass, field
from typing import Annotated

from annotated_types import Ge, Le

from lifecycle_manager.contract.options import (
    Count,
    HostAndPort,
    OtlpEndpoint,
    Seconds,
    SecretName,
    Share,
    concurrency_option,
    event_address_option,
    fips_only_option,
    interval_option,
    option,
    pull_secret_option,
    trace_sampling_ratio_option,
)

RESEND_SECONDS = 12.0
"""By then a Watcher has sent an event again that did not arrive."""
MAX_HEARTBEAT_SECONDS = 3600.0
"""Watchers take no longer time."""


@dataclass(frozen=True, slots=True)
class CanaryTimes:
    """How often the event path is tested, in seconds. A broken one is found in three minutes (`EventPath`: 141 s).

    Three canaries are sent before the timeout, so a lost one, or an answer that is sent again, is no fault.
    """

    interval: Seconds = option(
        120.0, "watcher-canary-interval", "interval at which the event path of an SKR is tested by a dry-run write"
    )
    timeout: Seconds = option(
        15.0,
        "watcher-canary-timeout",
        "time without a reported test write after which the event path counts as broken",
    )
    again: float = 5.0
    write_interval: float = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WatcherTimes:
    """Intervals of the controller, in seconds."""

    interval: Seconds = interval_option(300.0)
    silence: Seconds = option(58.0, "watcher-silence", "time without any event after which a Watcher counts as silent")
    canary: CanaryTimes = field(default_factory=CanaryTimes)

    @property
    def heartbeat(self) -> float:
        """The time without an event after which a Watcher sends a heartbeat: there is time to send it a second time."""
        return min(max(self.silence - RESEND_SECONDS, self.silence / 2), MAX_HEARTBEAT_SECONDS)


@dataclass(frozen=True, slots=True)
class WatcherDeployment:
    """How the Watcher runs in every SKR.

    `kcp_address` is host:port of the event endpoint; `pull_secret` the name of the image pull Secret, if there is one.
    It sends traces to `otlp_endpoint`, where one is given.
    """

    image: str = option("skr-watcher:latest", "skr-watcher-image", "image of the Watcher")
    kcp_address: HostAndPort = event_address_option()
    memory_limit: str = option("200Mi", "skr-webhook-memory-limits", "memory limit of the Watcher")
    cpu_limit: str = option(
        "0.5",
        "skr-webhook-cpu-limits",
        "CPU limit of the Watcher, which needs 0.6 s of CPU to start, and 2 ms for a change: with 0.1 it starts in 6 s",
    )
    replicas: Annotated[int, Ge(1), Le(10)] = option(1, "skr-webhook-replicas", "replicas of the Watcher in each SKR")
    pull_secret: SecretName = pull_secret_option()
    otlp_endpoint: OtlpEndpoint = option(
        "",
        "skr-watcher-otlp-endpoint",
        "URL of an OpenTelemetry collector, as the Watchers reach it from the SKRs. Default: Watchers send no traces",
    )
    trace_sampling_ratio: Share = trace_sampling_ratio_option()
    fips_only: bool = fips_only_option()


@dataclass(frozen=True, slots=True, kw_only=True)
class WatcherSettings:
    """How Watchers run, and when the controller acts. `repair_on_events`: they report changes of modules' objects."""

    deployment: WatcherDeployment = field(default_factory=WatcherDeployment)
    times: WatcherTimes = field(default_factory=WatcherTimes)
    repair_on_events: bool = option(
        True,
        "repair-on-events",
        "have Watchers report objects of modules that others delete or edit, so that these are repaired at once and "
        "not at the interval; a ModulePolicy can switch this off for a module",
    )
    concurrency: Count = concurrency_option(20)
