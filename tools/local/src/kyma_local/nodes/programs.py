"""The programs of nodes: built once from the Go modules, for each version, and cached."""

from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from kyma_local.cache import cache_root, fetched
from kyma_local.go_build import build_kubernetes
from kyma_local.go_modules import build_programs
from kyma_local.progress import SILENT, Listener
from kyma_local.sources import KUBERNETES

KUBERNETES_PROGRAMS = ("kubelet", "kube-proxy", "kube-scheduler", "kubectl")
MODULES = {"github.com/coredns/coredns": "v1.14.7", "github.com/cloudnativelabs/kube-router/v2": "v2.1.0"}
IN_IMAGES = ("coredns", "pause")
OWN_PROGRAMS = (*IN_IMAGES, "network-policies")  # from the sources in `go`
PROGRAMS = (*KUBERNETES_PROGRAMS, *OWN_PROGRAMS)


def find_programs(listener: Listener = SILENT, *, version: str = KUBERNETES) -> Path:
    """Return the folder of the programs, built if necessary. Raises SourceFailed."""

    def build(target: Path) -> None:
        build_kubernetes(target, KUBERNETES_PROGRAMS, version, listener)
        what, packages = "CoreDNS and the agent of network policies", [f"./{name}" for name in OWN_PROGRAMS]
        build_programs(target, what, MODULES, packages, listener, sources=_sources())

    return fetched(cache_root() / f"node-{version}", PROGRAMS, build, listener.doing)


def _sources() -> Mapping[str, str]:
    folder = resources.files("kyma_local.nodes") / "go"
    return {f"{name}/main.go": (folder / f"{name}.go").read_text() for name in OWN_PROGRAMS}
