"""What a machine needs so that nodes can run on it."""

import os
import shutil
import sys

from kyma_local.nodes.folders import cgroup_roots
from kyma_local.nodes.settings import CNI_PLUGINS, CNI_PROGRAMS

DEBIAN_PACKAGES = {
    "containerd": "containerd",
    "ctr": "containerd",
    "containerd-shim-runc-v2": "containerd",
    "runc": "runc",
    "ip": "iproute2",
    "nft": "nftables",
    "iptables": "iptables",
    "ipset": "ipset",
    "mount": "mount",
    "nsenter": "util-linux",
    "unshare": "util-linux",
}


class NodesUnavailable(Exception):
    """Nodes cannot run on this machine; the message lists what is missing."""


def missing() -> tuple[str, ...]:
    """Return what this machine lacks for nodes, in words."""
    if sys.platform != "linux":
        return (f"Linux (this is {sys.platform})",)
    lacking = [] if os.geteuid() == 0 else ["root"]
    packages = {package for program, package in DEBIAN_PACKAGES.items() if shutil.which(program) is None}
    if not all(os.access(CNI_PLUGINS / name, os.X_OK) for name in CNI_PROGRAMS):
        packages.add("containernetworking-plugins")
    if packages:
        lacking.append(f"Debian's packages {' '.join(sorted(packages))} (make node-tools)")
    if not all(os.access(root, os.W_OK) for root in cgroup_roots()):
        lacking.append("cgroups that can be written")
    return tuple(lacking)


def require_nodes() -> None:
    """Raises NodesUnavailable."""
    if lacking := missing():
        raise NodesUnavailable(f"nodes cannot run on this machine; it lacks: {', '.join(lacking)}")
