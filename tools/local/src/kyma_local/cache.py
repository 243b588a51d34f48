"""Where the programs of local clusters are: in the folder of others, or in the cache."""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kyma_local.claims import scratch_folder
from kyma_local.sources import NAMES, Versions


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


def present_binaries(versions: Versions | None = None) -> Binaries | None:
    """Return the binaries of `$KUBEBUILDER_ASSETS` or of the cache, None where neither has all of them."""
    folders = (os.environ.get("KUBEBUILDER_ASSETS"), cache_folder(versions or Versions()))
    return next((Binaries(Path(each)) for each in folders if each and has_programs(Path(each), NAMES)), None)


def has_programs(folder: Path, names: Sequence[str]) -> bool:
    """Return whether a folder has all of these programs."""
    return all(os.access(folder / name, os.X_OK) for name in names)


def fetched(folder: Path, names: Sequence[str], fetch: Callable[[Path], None], doing: Callable[[str], None]) -> Path:
    """Return a folder of the cache that has these programs, and fetch them if one is missing.

    `fetch` puts them into a new folder, whose parent is for its scratch files. The new folder replaces that of the
    cache in one step: an interrupted run leaves nothing behind. Processes that need the same fetch it once.
    """
    if has_programs(folder, names):
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.with_name(f"{folder.name}.lock"), doing):
        if not has_programs(folder, names):
            with scratch_folder("fetching-", folder.parent) as scratch:
                target = scratch / "bin"
                target.mkdir()
                fetch(target)
                shutil.rmtree(folder, ignore_errors=True)
                target.rename(folder)
    return folder


def cache_folder(versions: Versions) -> Path:
    """Return the cache folder of these versions."""
    return cache_root() / f"kubernetes-{versions.kubernetes}-etcd-{versions.etcd}"


def cache_root() -> Path:
    """Return the cache folder of all programs."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    return root / "kyma-lifecycle-manager"


@contextmanager
def locked(path: Path, doing: Callable[[str], None] = lambda _: None) -> Iterator[None]:
    """Hold a lock among processes. `doing` is called where another one has it."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            doing("waiting for another process, which fetches the same")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
