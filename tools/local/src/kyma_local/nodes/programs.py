"""The programs of nodes: built once from the Go modules, for each version, and cached."""

import os
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from kyma_local.cache import cache_root, locked
from kyma_local.claims import scratch_folder
from kyma_local.go_build import build_kubernetes
from kyma_local.go_modules import GoModule, find_go
from kyma_local.progress import SILENT, Listener
from kyma_local.sources import KUBERNETES, install

KUBERNETES_PROGRAMS = ("kubelet", "kube-proxy", "kube-scheduler", "kubectl")
MODULES = {"github.com/coredns/coredns": "v1.14.7", "github.com/cloudnativelabs/kube-router/v2": "v2.1.0"}
IN_IMAGES = ("coredns", "pause")
OWN_PROGRAMS = (*IN_IMAGES, "network-policies")  # from the sources in `go`
PROGRAMS = (*KUBERNETES_PROGRAMS, *OWN_PROGRAMS)


def find_programs(listener: Listener = SILENT, *, version: str = KUBERNETES) -> Path:
    """Return the folder of the programs, built if necessary. Two processes that need them build them once.

    Raises SourceFailed.
    """
    cache = cache_root() / f"node-{version}"
    cache.mkdir(parents=True, exist_ok=True)
    with locked(cache.with_name(f"{cache.name}.lock"), listener.doing):
        if lacking := _lacking(cache, KUBERNETES_PROGRAMS):
            _build_kubernetes(cache, lacking, version, listener)
        if _lacking(cache, OWN_PROGRAMS):
            _build_own(cache, listener)
    return cache


def _lacking(cache: Path, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in names if not os.access(cache / name, os.X_OK))


def _build_kubernetes(target: Path, names: tuple[str, ...], version: str, listener: Listener) -> None:
    with scratch_folder("fetching-", target.parent) as scratch:
        built = scratch / "bin"
        built.mkdir()
        build_kubernetes(built, names, version, listener)
        for name in names:
            install(built / name, target)


def _build_own(target: Path, listener: Listener) -> None:
    with scratch_folder("fetching-", target.parent) as scratch:
        go = find_go(scratch, listener)
        packages = tuple(f"./{name}" for name in OWN_PROGRAMS)
        module = GoModule(go, scratch / "own", MODULES, packages, _sources())
        listener.doing("CoreDNS and the agent of network policies: downloading their Go modules")
        module.prepare()
        listener.doing("CoreDNS and the agent of network policies: building, some minutes, once")
        for program in module.build("-s -w", listener.done):
            install(program, target)


def _sources() -> Mapping[str, str]:
    folder = resources.files("kyma_local.nodes") / "go"
    return {f"{name}/main.go": (folder / f"{name}.go").read_text() for name in OWN_PROGRAMS}
