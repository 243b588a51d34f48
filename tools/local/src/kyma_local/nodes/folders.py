"""What a node leaves in the file system: a folder and cgroups of the same name, removed when its process has ended.

Whoever starts the next node removes what is left of a process that was killed: the claim of its folder has ended.
"""

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from kyma_local.cache import cache_root, locked
from kyma_local.claims import claimed, holder

CGROUPS = Path("/sys/fs/cgroup")
PREFIX = "klm-node-"
END_SECONDS = 10.0
INHERITED = ("cpuset.cpus", "cpuset.mems")
V2_CONTROLLERS = ("cpuset", "cpu", "memory", "pids")


def cgroup_roots() -> tuple[Path, ...]:
    """Return the root of each hierarchy of cgroups; version 2 has one, version 1 one for each controller."""
    if (CGROUPS / "cgroup.controllers").exists():
        return (CGROUPS,)
    return tuple(
        sorted(each for each in CGROUPS.iterdir() if (each / "cgroup.procs").exists() and not each.is_symlink())
    )


@contextmanager
def node_folder() -> Iterator[Path]:
    """Claim a new folder for a node; its name is also that of its cgroups. Both are deleted at the end."""
    root = cache_root() / "nodes"
    root.mkdir(parents=True, exist_ok=True)
    with ExitStack() as claim:
        with locked(root / "lock"):
            remove_left_behind(root)
            folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=root))
            claim.enter_context(claimed(folder))
        try:
            make_cgroups(folder.name)
            yield folder
        finally:
            _remove(folder)


def remove_left_behind(root: Path) -> None:
    """Remove the folders and cgroups of nodes whose process has ended."""
    for folder in root.glob(f"{PREFIX}*"):
        if holder(folder) is None:
            _remove(folder)


def make_cgroups(name: str) -> None:
    """Make a cgroup in each hierarchy. With a common one, each kubelet would end the Pods of the others as orphans."""
    for hierarchy in cgroup_roots():
        controllers = hierarchy / "cgroup.subtree_control"
        if controllers.exists() and hierarchy == CGROUPS:
            controllers.write_text(" ".join(f"+{each}" for each in V2_CONTROLLERS))
        (hierarchy / name).mkdir()
        for setting in INHERITED:
            if hierarchy != CGROUPS and (hierarchy / setting).exists():
                (hierarchy / name / setting).write_text((hierarchy / setting).read_text())


def _remove(folder: Path) -> None:
    deadline = time.monotonic() + END_SECONDS
    for hierarchy in cgroup_roots():
        while (hierarchy / folder.name).exists():
            try:
                _remove_cgroups(hierarchy / folder.name)
            except OSError:  # a process in it is just ending
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
    shutil.rmtree(folder)


def _remove_cgroups(root: Path) -> None:
    below = sorted((path for path in root.rglob("*") if path.is_dir()), reverse=True)
    for each in (*below, root):
        each.rmdir()
