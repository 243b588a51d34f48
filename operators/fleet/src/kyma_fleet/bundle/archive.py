"""A support archive: a file of its owner alone, that never grows beyond a bound."""

import io
import os
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kyma_fleet.documents import Part
from kyma_fleet.problems import Problem


class BundledFile(Part, frozen=True):
    """One file of the archive. `cut`: not all of it is there."""

    name: str
    size: int
    cut: bool = False


class Missing(Part, frozen=True):
    """What is not in the archive, and why."""

    what: str
    why: str


@dataclass(eq=False)
class BundleArchive:
    """What was written so far; `room` is how many bytes may follow, before compression."""

    _tar: tarfile.TarFile
    room: int
    files: list[BundledFile] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)

    def add(self, name: str, text: str) -> None:
        """Write a file, or as much of it as there is room for."""
        content = text.encode("utf-8", "replace")
        kept = content[: max(self.room, 0)]
        self.room -= len(kept)
        self.write(name, kept)
        self.files.append(BundledFile(name, len(kept), cut=len(kept) < len(content)))

    def write(self, name: str, content: bytes) -> None:
        """Write a file whatever its size."""
        entry = tarfile.TarInfo(f"klm-bundle/{name}")
        entry.size, entry.mtime, entry.mode = len(content), int(time.time()), 0o600
        self._tar.addfile(entry, io.BytesIO(content))


@contextmanager
def new_archive(file: Path, max_bytes: int) -> Iterator[BundleArchive]:
    """Yield an archive in a new file. Raises Problem where there is one, or it can't be written."""
    try:
        number = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise Problem(f"can't write {file}: {error.strerror}; choose another with --file") from None
    with os.fdopen(number, "wb") as stream, tarfile.open(fileobj=stream, mode="w:gz") as tar:
        yield BundleArchive(tar, max_bytes)
