"""Whose folder it is: a claim that lasts as long as the process which made it, however that ends.

A process id in a file says little, since the kernel gives ids out again. So the file is locked too, and the lock tells
whether that process still runs.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path

CLAIM = "claimed-by.pid"


class FolderInUse(Exception):
    """Another process works in this folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"{folder} is in use by process {holder(folder)}; give another folder with --dir")


@contextmanager
def claimed(folder: Path) -> Iterator[Path]:
    """Claim a folder, and make it where there is none. Raises FolderInUse."""
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
    """Claim a folder or, where somebody works in it already, the first of `<folder>-2`, `<folder>-3` and so on."""
    with ExitStack() as claim:
        for number in count(1):
            candidate = folder if number == 1 else folder.with_name(f"{folder.name}-{number}")
            try:
                claim.enter_context(claimed(candidate))
            except FolderInUse:
                continue
            yield candidate
            return


def holder(folder: Path) -> int | None:
    """Return the id of the process that works in a folder, None where there is none, or it is just ending."""
    try:
        with (folder / CLAIM).open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return int(file.read() or 0) or None
    except FileNotFoundError:
        return None
    return None
