"""How this replica shares the Kymas with others: its Lease, its name, and the address at which the others reach it."""

import re
import socket
from datetime import timedelta
from typing import TYPE_CHECKING, Self

from pydantic import Field, model_validator

from lifecycle_manager.options.model import DomainSettings
from lifecycle_manager.options.shared import LeaseNamespace, ReplicaBindAddress
from lifecycle_manager.options.types import Duration, OptionalHostAndPort
from lifecycle_manager_api import names

if TYPE_CHECKING:
    from kube_runtime import Client
    from kube_runtime.leases import LeaseSharding, LeaseTiming

LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"


class ReplicaSettings(DomainSettings):
    """See the help of each option."""

    enabled: bool = Field(
        default=True,
        validation_alias="leader-elect",
        description="share the Kymas with other replicas by Leases; if off, this must be the only replica",
    )
    namespace: LeaseNamespace = names.KCP_LEASE_NAMESPACE
    lease_duration: Duration = Field(
        default=timedelta(seconds=10),
        validation_alias="leader-election-lease-duration",
        description="how long a replica may miss renewals of its Lease before others take its Kymas over; it renews "
        "it every quarter of that, and writes for seven tenths of it after its last renewal",
    )
    given_name: str = Field(
        default="",
        max_length=200,
        pattern=rf"^({LABEL}(\.{LABEL})*)?$",
        validation_alias="replica-name",
        description="unique name of this replica, such as the name of its Pod; after a restart it takes its Kymas "
        "back at once",
    )
    bind_address: ReplicaBindAddress = ("", 8443)
    given_address: OptionalHostAndPort = Field(
        default="",
        validation_alias="replica-address",
        description="host:port at which other replicas reach it; default: host name and port of replica-bind-address",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        """Refuse a time that a Lease can't have. Raises ValueError."""
        if self.lease_duration < timedelta(seconds=1) or self.lease_duration % timedelta(seconds=1):
            raise ValueError("leader-election-lease-duration must be whole seconds, as in a Lease")
        return self

    @property
    def name(self) -> str:
        """The name of this replica: by default its host name, in the letters of a Lease's name."""
        return self.given_name or re.sub(r"[^a-z0-9-]+", "-", socket.gethostname().lower()).strip("-") or "replica"

    @property
    def address(self) -> str:
        """host:port at which the other replicas reach this one."""
        return self.given_address or f"{socket.gethostname()}:{self.bind_address[1]}"

    @property
    def timing(self) -> "LeaseTiming":
        """How long things last, of which the Lease's duration is given."""
        from kube_runtime.leases import LeaseTiming

        seconds = int(self.lease_duration.total_seconds())
        return LeaseTiming(lease_seconds=seconds, act_seconds=0.7 * seconds, renew_seconds=0.25 * seconds)

    def sharding(self, leases: "Client") -> "LeaseSharding | None":
        """Return how the Kymas are shared among replicas; None where this is the only one."""
        if not self.enabled:
            return None
        from kube_runtime.leases import LeaseSharding

        return LeaseSharding(
            leases,
            namespace=self.namespace,
            group=names.LIFECYCLE_MANAGER,
            name=self.name,
            succeeds=bool(self.given_name),
            address=self.address,
            timing=self.timing,
        )
