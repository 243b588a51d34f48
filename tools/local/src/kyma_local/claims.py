"""Claims of folders: a claim lasts as long as its process, however the process ends.

A process id in a file alone is not reliable, since the kernel reuses ids. So the file is also locked: the lock shows
whether the process still runs.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path

CLAIM = "claimed-by.pid"


class FolderInUse(Exception):
    """Another process uses this folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"{folder} is in use by process {holder(folder)}; choose another folder with --dir")


@contextmanager
def claimed(folder: Path) -> Iterator[Path]:
    """Claim a folder; create it if it does not exist. Raises FolderInUse."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / CLAIM).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FolderInUse(folder) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield folder
        file.truncate(0)


@contextmanager
def first_unclaimed(folder: Path) -> Iterator[Path]:
    """Claim a folder or, if it is in use, the first free one of `<folder>-2`, `<folder>-3` and so on."""
    with ExitStack() as claim:
        for number in count(1):
            candidate = folder if number == 1 else folder.with_name(f"{folder.name}-{number}")
            try:
                claim.enter_context(claimed(candidate))
            except FolderInUse:
                continue
            yield candidate
            return


@contextmanager
def scratch_folder(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    """Claim a new folder that is deleted at the end, by default in the temporary folder.

    Those of killed processes are deleted, too: their claim names a process, and is not locked.
    """
    root = parent or Path(tempfile.gettempdir())
    for each in root.glob(f"{prefix}*"):
        if _is_left_behind(each):
            shutil.rmtree(each, ignore_errors=True)  # another process may be deleting it, too
    with tempfile.TemporaryDirectory(prefix=prefix, dir=root) as folder, claimed(Path(folder)) as claim:
        yield claim


def _is_left_behind(folder: Path) -> bool:
    try:
        is_own = folder.lstat().st_uid == os.getuid() and not folder.is_symlink()
        return is_own and bool((folder / CLAIM).read_text()) and holder(folder) is None
    except OSError:  # deleted meanwhile, without a claim, or no folder
        return False


def holder(folder: Path) -> int | None:
    """Return the id of the process that uses a folder; None if there is none or if it is ending."""
    try:
        with (folder / CLAIM).open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return int(file.read() or 0) or None
    except FileNotFoundError:
        return None
    return None
