"""The configuration of the programs of a node, as files in its folder."""

from pathlib import Path
from typing import Any

import msgspec

from kube_runtime import dump_yaml
from kyma_local.nodes.images import image_name
from kyma_local.nodes.init import NodeSettings
from kyma_local.nodes.network import SERVICE_ADDRESSES, NodeNetwork

CNI_PLUGINS = Path("/usr/lib/cni")
CNI_PROGRAMS = ("ptp", "host-local", "loopback")
DNS_ADDRESS = "10.0.0.10"
DNS_DOMAIN = "cluster.local"
KUBELET_PORT = 10250
SETTINGS = "settings.json"


def write_settings(
    folder: Path,
    *,
    name: str,
    network: NodeNetwork,
    programs: Path,
    first_images: tuple[Path, ...],
    images: tuple[Path, ...],
    logs: Path,
) -> Path:
    """Write the configuration of all programs into the folder of a node; return the path of what process 1 reads.

    That folder has the CA as `ca.crt`, and for each program a kubeconfig: `kubelet.kubeconfig` and so on.
    """
    (folder / "containerd.toml").write_text(
        _CONTAINERD.format(pause=image_name("pause"), plugins=CNI_PLUGINS, at=folder)
    )
    (folder / "cni").mkdir(exist_ok=True)
    (folder / "cni" / "pods.conflist").write_bytes(msgspec.json.encode(_cni(network)))
    (folder / "resolv.conf").write_text("")  # names outside of the cluster are unknown
    (folder / "kubelet.yaml").write_text(dump_yaml(_kubelet(folder, network)))
    (folder / "kube-proxy.yaml").write_text(dump_yaml(_kube_proxy(folder, name, network)))
    settings = NodeSettings(
        kubelet=(
            str(programs / "kubelet"),
            f"--config={folder / 'kubelet.yaml'}",
            f"--kubeconfig={folder / 'kubelet.kubeconfig'}",
            f"--hostname-override={name}",
            f"--node-ip={network.address}",
            "--v=1",
        ),
        kube_proxy=(str(programs / "kube-proxy"), f"--config={folder / 'kube-proxy.yaml'}"),
        network_policies=(
            str(programs / "network-policies"),
            f"--kubeconfig={folder / 'network-policies.kubeconfig'}",
            f"--node={name}",
            f"--service-cluster-ip-range={SERVICE_ADDRESSES}",
        ),
        first_images=tuple(map(str, first_images)),
        images=tuple(map(str, images)),
        logs=str(logs),
    )
    path = folder / SETTINGS
    path.write_bytes(msgspec.json.encode(settings))
    return path


def _kubelet(folder: Path, network: NodeNetwork) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": network.address,
        "port": KUBELET_PORT,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(folder / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{folder.name}",
        "clusterDNS": [DNS_ADDRESS],
        "clusterDomain": DNS_DOMAIN,
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "enforceNodeAllocatable": [],
        # As in kind: the disk and the memory are the machine's, of which the node is a small part.
        "evictionHard": {"imagefs.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%"},
        "imageGCHighThresholdPercent": 100,
        "failCgroupV1": False,
        "failSwapOn": False,
        "oomScoreAdj": 0,
        "resolvConf": str(folder / "resolv.conf"),
    }


def _kube_proxy(folder: Path, name: str, network: NodeNetwork) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clientConnection": {"kubeconfig": str(folder / "kube-proxy.kubeconfig")},
        "clusterCIDR": network.pods,
        "hostnameOverride": name,
        "healthzBindAddress": f"{network.address}:10256",
        "metricsBindAddress": "127.0.0.1:10249",
        # Sizes of tables are settings of the machine.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }


def _cni(network: NodeNetwork) -> dict[str, Any]:
    addresses = {
        "type": "host-local",
        "ranges": [[{"subnet": network.pods}]],
        "routes": [{"dst": "0.0.0.0/0"}],
        "dataDir": "/run/cni/addresses",
    }
    # Point to point, so that the packets between Pods of one node pass through the rules of kube-proxy, too.
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": [{"type": "ptp", "ipam": addresses}]}


_CONTAINERD = """version = 2
root = "/var/lib/containerd"
state = "/run/containerd"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{pause}"
# Not every machine has the capability CAP_SYS_RESOURCE; without it, a container fails that asks for a lower value.
restrict_oom_score_adj = true

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{plugins}"
conf_dir = "{at}/cni"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false
"""
