"""Options that several domains need."""

from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator, Field

from lifecycle_manager.options.model import DomainSettings
from lifecycle_manager.options.types import (
    BindAddress,
    Count,
    Duration,
    HostAndPort,
    Namespace,
    Seconds,
    SecretName,
    Share,
    Texts,
    host_and_port,
)

PullSecret = Annotated[
    SecretName,
    Field(
        validation_alias="skr-image-pull-secret",
        description="Secret in kcp-system for private images: copied to kyma-system of every SKR, and named by Pods "
        "of the Watcher and of Deployments and StatefulSets of modules; default: none",
    ),
]
SyncNamespace = Annotated[
    Namespace,
    Field(
        validation_alias="sync-namespace",
        description="namespace in SKRs for default Module CRs and for objects of modules that name none; created if "
        "missing. The Kyma CR, the module catalog and the Watcher are always in kyma-system",
    ),
]
EventAddress = Annotated[
    HostAndPort,
    Field(validation_alias="event-address", description="host:port at which Watchers reach the event endpoint"),
]
WebhookService = Annotated[
    str, Field(validation_alias="webhook-service", description="Service of that address, port 443")
]
DeletionInterval = Annotated[
    Seconds,
    Field(
        validation_alias="kyma-requeue-busy-interval",
        description="interval at which a Kyma is reconciled that is being deleted",
    ),
]
TraceSamplingRatio = Annotated[
    Share,
    Field(
        validation_alias="trace-sampling-ratio",
        description="share of changes whose traces are sent",
    ),
]
FipsOnly = Annotated[
    bool,
    Field(
        validation_alias="fips-only",
        description="start only where OpenSSL's FIPS provider is the only one; the Watchers do the same",
    ),
]
Concurrency = Annotated[
    Count,
    Field(
        validation_alias="max-concurrent-reconciles",
        description="concurrent reconciles of each kind; by default 20 of Watchers, catalogs and mandatory modules",
    ),
]
Interval = Annotated[
    Seconds,
    Field(
        validation_alias="kyma-requeue-success-interval",
        description="interval at which a Kyma, its Module CRs, Watcher, catalog and mandatory modules are reconciled "
        "without an event; by default 5m for Watchers and mandatory modules, 10m for catalogs",
    ),
]
ObjectsInterval = Annotated[
    Seconds,
    Field(
        validation_alias="manifest-requeue-success-interval",
        description="interval at which the objects of Manifests and SyncResources are reconciled without an event; by "
        "default 2m for SyncResources",
    ),
]
LeaseNamespace = Annotated[
    Namespace,
    Field(
        validation_alias="leader-election-namespace",
        description="namespace of those Leases, in which nobody but Lifecycle Manager may write",
    ),
]
ReplicaBindAddress = Annotated[
    BindAddress,
    Field(validation_alias="replica-bind-address", description="listen address for events from other replicas"),
]
IstioNamespace = Annotated[
    Namespace,
    Field(validation_alias="istio-namespace", description="namespace of Istio, and of the gateway's Secret"),
]


class PurgeSettings(DomainSettings):
    """Whether and when finalizers are removed that nobody acts on any more."""

    enabled: bool = Field(
        default=False,
        validation_alias="enable-purge-finalizer",
        description="remove finalizers of objects that modules left in an SKR whose Kyma is being deleted",
    )
    timeout: Duration = Field(
        default=timedelta(minutes=5),
        validation_alias="purge-finalizer-timeout",
        description="time after which finalizers of such objects are removed",
    )

    @property
    def after(self) -> timedelta | None:
        """How long after the deletion of a Kyma, None for never."""
        return self.timeout if self.enabled else None


def _dns_names(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return names that certificates can have: one that they can't would leave every cluster without."""
    from kyma_certs import is_dns_name  # noqa: PLC0415 - it takes longer to import than all options

    for each in texts:
        if not is_dns_name(each):
            raise ValueError(f"invalid DNS name {each[:80]!r}")
    return texts


class EventNames(DomainSettings):
    """The names by which Watchers connect."""

    address: EventAddress = "localhost:8082"
    additional: Annotated[Texts, AfterValidator(_dns_names)] = Field(
        default=(),
        validation_alias="additional-dns-names",
        description="additional SANs of the Watchers' certificates",
    )

    @property
    def hosts(self) -> tuple[str, ...]:
        """All of them, that of the address first."""
        return tuple(dict.fromkeys((host_and_port(self.address)[0], *self.additional)))
