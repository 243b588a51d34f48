"""The type of the Module CR. The schema of the CRD has checked the values already."""

import msgspec

from lifecycle_manager_api import ObjectMeta


class NfsVolume(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One NFS export that workloads can mount."""

    name: str
    server: str
    path: str = "/"
    capacity: str = "100Gi"
    read_only: bool = False


class VpcPeering(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One network that workloads may connect to."""

    name: str
    remote_network: str
    ports: tuple[int, ...] = ()


class InfrastructureSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The configuration that the user writes."""

    nfs_volumes: tuple[NfsVolume, ...] = ()
    vpc_peerings: tuple[VpcPeering, ...] = ()


class Infrastructure(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The Module CR of cloud resources."""

    metadata: ObjectMeta
    spec: InfrastructureSpec = InfrastructureSpec()
