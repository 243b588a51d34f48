"""Access to clusters, and the brake on deletions in them."""

from typing import Annotated

from pydantic import Field

from lifecycle_manager.options.model import DomainSettings
from lifecycle_manager.options.types import Count, Rate, Seconds


class SkrSettings(DomainSettings):
    """Limits of the access to SKRs."""

    qps: Rate = Field(
        default=200.0,
        validation_alias="k8s-skr-client-qps",
        description="requests per second to each SKR, with bursts of twice as many",
    )
    request_timeout_seconds: float = 10.0
    max_clients: Count = Field(
        default=1000, validation_alias="max-warm-skrs", description="maximum of SKRs to which connections are kept open"
    )
    allow_insecure_kubeconfigs: bool = Field(
        default=False,
        validation_alias="allow-insecure-kubeconfigs",
        description="accept kubeconfigs with exec plugins, files, proxies, impersonation or without TLS verification",
    )
    max_concurrent_probes: int = 200


Percent = Annotated[int, Field(ge=1, le=100)]


class BrakeSettings(DomainSettings):
    """When deletions are held."""

    grace_seconds: Seconds = Field(
        default=300.0,
        validation_alias="access-secret-grace",
        description="time without an access Secret after which a cluster counts as deleted, and its objects are "
        "forgotten",
    )
    max_percent: Percent = Field(
        default=25,
        validation_alias="max-deletions-percent",
        description="share of the clusters, in percent, in which deletions may be under way at once before all of "
        "them are held until klm continue, beyond 10 clusters; 100 for no limit",
    )
    min_clusters: int = 10

    def limit(self, clusters: int) -> int:
        """Return in how many clusters of so many deletions may be under way."""
        return max(self.min_clusters, clusters * self.max_percent // 100)
