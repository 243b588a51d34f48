"""What is below a program in its image: Python, and the libraries that it needs.

Without an image for it, it is made from Debian's packages, by `mmdebstrap`: as root, or as any user with subordinate
ids. Only the essential packages, Python and the CAs are in it: no compiler, no pip, no apt.
"""

import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kyma_local.cache import cache_root, locked
from kyma_local.oci_archive import LayerArchive
from tools.images.layers import layer_of_root
from tools.images.within import unpack

SUITE = "trixie"
PACKAGES = ("python3", "ca-certificates")
STATUS = "var/lib/dpkg/status"


class BaseMissing(Exception):
    """There is no base for the images; the message says how to get one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """The base of the images: `root` is the layer, unpacked, `python` the path of its interpreter in there, `status`
    Debian's list of packages."""

    layer: LayerArchive
    root: Path
    python: str
    status: str


def find_base(root: Path | None, *, time: int, scratch: Path) -> Base:
    """Return the base from the archive of a root file system; without one from Debian's packages, made once and cached.

    Raises BaseMissing.
    """
    archive = root if root is not None else debian_root(f"debian-{SUITE}", PACKAGES)
    if not tarfile.is_tarfile(archive):
        raise BaseMissing(f"{archive} is not a tar archive of a root file system")
    layer = layer_of_root(archive, time=time, target=scratch / "base.tar")
    with tarfile.open(layer.path) as tar:
        interpreters = [name for name in tar.getnames() if re.fullmatch(r"usr/(local/)?bin/python3\.\d+", name)]
        if len(interpreters) != 1:
            raise BaseMissing(
                f"{archive} has {len(interpreters)} interpreters of Python (usr/bin/python3.N); expected 1"
            )
        status = tar.extractfile(STATUS) if STATUS in tar.getnames() else None
        return Base(
            layer=layer,
            root=unpack(layer.path, scratch / "root"),
            python=f"/{interpreters[0]}",
            status=status.read().decode() if status is not None else "",
        )


def debian_root(name: str, packages: Sequence[str]) -> Path:
    """Return the archive of a root file system with these packages of Debian, made once. Raises BaseMissing."""
    cache = cache_root() / "images"
    cache.mkdir(parents=True, exist_ok=True)
    root = cache / f"{name}.tar"
    with locked(root.with_suffix(".lock")):
        if not root.exists():
            _make(root, packages)
    return root


def _make(root: Path, packages: Sequence[str]) -> None:
    program = shutil.which("mmdebstrap")
    if program is None:
        raise BaseMissing(
            "no base for the images: install Debian's package mmdebstrap, or name the archive of a root file system "
            "with Python: make images BASE=root.tar (docker export, podman export)"
        )
    partial = root.with_suffix(".partial.tar")
    command = [program, "--quiet", "--variant=essential", f"--include={','.join(packages)}", SUITE, str(partial)]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "0"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        partial.unlink(missing_ok=True)
        raise BaseMissing(f"mmdebstrap failed: {done.stderr.strip()[-2000:]}")
    partial.rename(root)
