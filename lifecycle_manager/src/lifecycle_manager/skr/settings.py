"""The options of the access to SKRs, and of the brake on deletions."""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le

from lifecycle_manager.contract.options import Count, Rate, Seconds, option


@dataclass(frozen=True, slots=True, kw_only=True)
class SkrSettings:
    """Limits of the access to SKRs."""

    qps: Rate = option(200.0, "k8s-skr-client-qps", "requests per second to each SKR, with bursts of twice as many")
    request_timeout_seconds: Seconds = option(10.0, "skr-request-timeout", "timeout of one request to an SKR")
    max_clients: Count = option(1000, "max-warm-skrs", "maximum of SKRs to which connections are kept open")
    allow_insecure_kubeconfigs: bool = option(
        False,
        "allow-insecure-kubeconfigs",
        "accept kubeconfigs with exec plugins, file paths or TLS verification switched off",
    )
    max_concurrent_probes: int = 200


Percent = Annotated[int, Ge(1), Le(100)]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrakeSettings:
    """When deletions are held."""

    grace_seconds: Seconds = option(
        300.0,
        "access-secret-grace",
        "time without an access Secret after which a cluster counts as deleted, and its objects are forgotten",
    )
    max_percent: Percent = option(
        25,
        "max-deletions-percent",
        "share of the clusters, in percent, in which deletions may be under way at once before all of them are held "
        "until klm continue; 100 for no limit",
    )
    min_clusters: Count = option(
        10, "max-deletions-clusters", "number of clusters in which deletions may be under way at once in any case"
    )

    def limit(self, clusters: int) -> int:
        """Return in how many clusters of so many deletions may be under way."""
        return max(self.min_clusters, clusters * self.max_percent // 100)
