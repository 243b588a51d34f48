"""The Module CR as a type. What the CRD's schema has checked already is not checked again."""

import msgspec

from lifecycle_manager_api import ObjectMeta

__all__ = ["Infrastructure", "InfrastructureSpec", "NfsVolume", "VpcPeering"]


class NfsVolume(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One NFS export that workloads can mount."""

    name: str
    server: str
    path: str = "/"
    capacity: str = "100Gi"
    read_only: bool = False


class VpcPeering(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One network to which workloads may talk."""

    name: str
    remote_network: str
    ports: tuple[int, ...] = ()


class InfrastructureSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the user asks for."""

    nfs_volumes: tuple[NfsVolume, ...] = ()
    vpc_peerings: tuple[VpcPeering, ...] = ()


class Infrastructure(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The Module CR of cloud resources."""

    metadata: ObjectMeta
    spec: InfrastructureSpec = InfrastructureSpec()
