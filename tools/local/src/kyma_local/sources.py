"""Common to the sources of binaries: versions, file names, and the exception of a source."""

import shutil
from dataclasses import dataclass
from pathlib import Path

KUBERNETES = "v1.36.3"
ETCD = "v3.6.16"
NAMES = ("etcd", "kube-apiserver", "kube-controller-manager")


class SourceFailed(Exception):
    """A source cannot provide the binaries; the message says why."""


@dataclass(frozen=True, slots=True)
class Versions:
    """The versions to install."""

    kubernetes: str = KUBERNETES
    etcd: str = ETCD


def install(program: Path, target: Path) -> None:
    """Move a program into a folder and make it executable."""
    shutil.move(program, target / program.name)
    (target / program.name).chmod(0o755)
