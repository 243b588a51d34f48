"""How this replica shares the Kymas with others: its Lease, its name, and the address at which the others reach it."""

import re
import socket
from datetime import timedelta
from typing import Self

from pydantic import Field, model_validator

from lifecycle_manager.options.model import DomainSettings
from lifecycle_manager.options.shared import LeaseNamespace, ReplicaBindAddress
from lifecycle_manager.options.types import Duration, OptionalHostAndPort
from lifecycle_manager_api import names

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
