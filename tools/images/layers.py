"""Layers that depend on the contents of files only: not on the time, the user, or the order of a folder."""

import re
import tarfile
from pathlib import Path

from kyma_local.oci_archive import LayerArchive

NEEDLESS = re.compile(
    r"etc/(hostname|resolv\.conf)"  # of the machine that made the archive
    r"|(usr/share/(doc|man|info|locale|lintian)|var/(cache|log|lib/apt))/.+|var/lib/dpkg/.+-old"
    r"|usr/(local/)?bin/pip[\d.]*"
    r"|usr/(local/)?lib/python3[\d.]*/(ensurepip|(site|dist)-packages/(pip|setuptools|wheel)(-[^/]+)?)(/.*)?"
)


def layer_of_folder(folder: Path, *, at: str, time: int, target: Path) -> LayerArchive:
    """Write a folder as a layer that has it at a path; everything in it belongs to root and can be read by all."""

    def normalized(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        entry.mtime = time
        entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
        return entry

    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted((folder, *folder.rglob("*"))):
            name = f"{at}/{path.relative_to(folder)}".removesuffix("/.")
            tar.add(path, name, recursive=False, filter=normalized)
    return LayerArchive.of(target)


def layer_of_root(root: Path, *, time: int, target: Path) -> LayerArchive:
    """Write the archive of a root file system as a layer, without documents, caches, logs, pip and host name."""
    with tarfile.open(root) as source, tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as tar:
        for entry in sorted(source, key=_after_hard_link_targets):
            entry.name = entry.name.removeprefix("./") or "."
            if NEEDLESS.fullmatch(entry.name) or entry.isdev():
                continue
            entry.mtime = min(int(entry.mtime), time)
            entry.pax_headers = {}
            tar.addfile(entry, source.extractfile(entry) if entry.isreg() else None)
    return LayerArchive.of(target)


def _after_hard_link_targets(entry: tarfile.TarInfo) -> tuple[bool, str]:
    return entry.islnk(), entry.name.removeprefix("./")
