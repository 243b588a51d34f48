"""What the sources of the binaries have in common: which versions are wanted, where they go, and how one fails."""

import shutil
from dataclasses import dataclass
from pathlib import Path

KUBERNETES = "v1.36.3"
ETCD = "v3.6.16"
NAMES = ("etcd", "kube-apiserver", "kube-controller-manager")


class SourceFailed(Exception):
    """One source does not have the binaries; the message says why."""


@dataclass(frozen=True, slots=True)
class Versions:
    """Which releases are wanted."""

    kubernetes: str = KUBERNETES
    etcd: str = ETCD


def install(program: Path, target: Path) -> None:
    """Move a program into a folder, ready to be run."""
    shutil.move(program, target / program.name)
    (target / program.name).chmod(0o755)
