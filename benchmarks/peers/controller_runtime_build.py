"""Builds the peer in Go, once for each state of its sources, by the toolchain that builds the local clusters."""

import hashlib
import shutil
import tempfile
from pathlib import Path

from kyma_local.cache import cache_folder
from kyma_local.go_modules import find_go, run
from kyma_local.progress import Listener
from kyma_local.sources import Versions

__all__ = ["built_peer", "peer_program"]

SOURCES = Path(__file__).with_name("controller_runtime")


def peer_program(listener: Listener) -> Path:
    """Return the program, built where it is not yet. Raises SourceFailed."""
    if (built := built_peer()) is not None:
        return built
    target = _target()
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="building-") as scratch:
        go = find_go(Path(scratch), listener)
        folder = Path(scratch) / "sources"
        shutil.copytree(SOURCES, folder)
        listener.doing("controller-runtime's program: fetching its Go modules and building, two minutes, once")
        run([go, "build", "-mod=readonly", "-trimpath", "-ldflags=-s -w", "-o", "built", "."], folder)
        (folder / "built").replace(target)
    return target


def built_peer() -> Path | None:
    """Return the program where it was built before."""
    target = _target()
    return target if target.exists() else None


def _target() -> Path:
    """Return where the program of these sources is kept: beside the binaries of the local clusters."""
    digest = hashlib.sha256()
    for path in sorted(SOURCES.iterdir()):
        digest.update(path.read_bytes())
    return cache_folder(Versions()).parent / f"controller-runtime-peer-{digest.hexdigest()[:16]}"
