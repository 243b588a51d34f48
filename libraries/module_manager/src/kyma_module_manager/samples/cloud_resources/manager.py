"""The manager: a PersistentVolume and a ConfigMap for each volume, a NetworkPolicy for each peering."""

import hashlib
from collections.abc import Iterator
from typing import Any

from kyma_module_manager.declaration import module_manager
from kyma_module_manager.exceptions import PermanentError
from kyma_module_manager.samples.cloud_resources.infrastructure import Infrastructure, NfsVolume, VpcPeering

PEERING_LABEL = "cloud-resources.kyma-project.io/vpc-peering"


@module_manager("cloud-resources", crd=Infrastructure)
def objects(infrastructure: Infrastructure) -> Iterator[dict[str, Any]]:
    """Return the objects of an Infrastructure."""
    for volume in infrastructure.spec.nfs_volumes:
        yield _persistent_volume(infrastructure, volume)
        yield _volume_config_map(infrastructure, volume)
    for peering in infrastructure.spec.vpc_peerings:
        yield _network_policy(infrastructure, peering)


def _persistent_volume(infrastructure: Infrastructure, volume: NfsVolume) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": _volume_name(infrastructure, volume), "labels": _labels(infrastructure)},
        "spec": {
            "capacity": {"storage": volume.capacity},
            "accessModes": ["ReadOnlyMany" if volume.read_only else "ReadWriteMany"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "cloud-resources-nfs",
            "nfs": {"server": volume.server, "path": volume.path, "readOnly": volume.read_only},
        },
    }


def _volume_config_map(infrastructure: Infrastructure, volume: NfsVolume) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(infrastructure, f"nfs-{volume.name}"),
        "data": {
            "server": volume.server,
            "path": volume.path,
            "capacity": volume.capacity,
            "persistentVolume": _volume_name(infrastructure, volume),
        },
    }


def _network_policy(infrastructure: Infrastructure, peering: VpcPeering) -> dict[str, Any]:
    if peering.remote_network in ("0.0.0.0/0", "::/0"):
        raise PermanentError(
            f"VPC peering {peering.name}: remoteNetwork {peering.remote_network} is the whole internet",
            reason="NetworkTooWide",
        )
    block = {"ipBlock": {"cidr": peering.remote_network}}
    ports = {"ports": [{"protocol": "TCP", "port": port} for port in peering.ports]} if peering.ports else {}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": _metadata(infrastructure, f"vpc-{peering.name}"),
        "spec": {
            # Only Pods with the label of the peering: selecting all would block other traffic of the others.
            "podSelector": {"matchLabels": {PEERING_LABEL: peering.name}},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": [block], **ports}],
            "egress": [{"to": [block], **ports}],
        },
    }


def _metadata(infrastructure: Infrastructure, name: str) -> dict[str, Any]:
    return {
        "name": f"{infrastructure.metadata.name}-{name}",
        "namespace": infrastructure.metadata.namespace,
        "labels": _labels(infrastructure),
    }


def _labels(infrastructure: Infrastructure) -> dict[str, str]:
    return {
        "app.kubernetes.io/managed-by": "cloud-resources",
        "cloud-resources.kyma-project.io/infrastructure": infrastructure.metadata.name,
    }


def _volume_name(infrastructure: Infrastructure, volume: NfsVolume) -> str:
    """Name a PersistentVolume after its immutable fields, so that a new address becomes a new volume."""
    metadata = infrastructure.metadata
    address = hashlib.sha256(f"{volume.server}:{volume.path}:{volume.read_only}".encode()).hexdigest()[:8]
    return f"{metadata.namespace}-{metadata.name}-{volume.name}-{address}"
