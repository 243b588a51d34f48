"""Where the programs of local clusters are: in the folder of others, or in the cache."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

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
    return next((Binaries(Path(each)) for each in folders if each and is_complete(Path(each))), None)


def is_complete(folder: Path) -> bool:
    """Return whether a folder has every program."""
    return all(os.access(folder / name, os.X_OK) for name in NAMES)


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
