"""Layers on disk, so that a restart pulls nothing again: by their digest, and by what gave access to them.

Otherwise whoever knows the digest of a private layer would get it without credentials. The cache is optional: a disk
that can't be written, or a file with another digest than its name, counts as a miss.
"""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import structlog

from kyma_oci.references import content_digest

log = structlog.get_logger("manifest")

MAX_BYTES = 1024 * 1024 * 1024


@dataclass(frozen=True, eq=False)
class Blobs:
    """Files in a folder, at most `max_bytes` of them; the least recently used are deleted."""

    folder: Path
    max_bytes: int = MAX_BYTES

    def read(self, digest: str, access: str) -> bytes | None:
        """Return the content of a digest, None where it is not cached. `access` names repository and credentials."""
        path = self._path(digest, access)
        try:
            content = path.read_bytes()
        except OSError:
            return None
        if content_digest(content) != digest:
            with suppress(OSError):
                path.unlink()
            return None
        with suppress(OSError):
            os.utime(path)
        return content

    def write(self, digest: str, access: str, content: bytes) -> None:
        """Cache the content of a digest, if possible."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._put(self._path(digest, access), content)
            self._make_room()
        except OSError as error:
            log.warning("layer not cached", digest=digest, error=str(error))

    def _put(self, path: Path, content: bytes) -> None:
        """Write the file completely or not at all, and leave no other behind."""
        handle, name = tempfile.mkstemp(dir=self.folder)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            Path(name).replace(path)
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise

    def _make_room(self) -> None:
        files = sorted(self._files())
        size = sum(each for _, each, _ in files)
        for _, each, path in files:
            if size <= self.max_bytes:
                return
            path.unlink(missing_ok=True)
            size -= each

    def _files(self) -> Iterator[tuple[float, int, Path]]:
        """Yield time, size and path of each file."""
        for path in self.folder.iterdir():
            try:
                found = path.stat()
            except FileNotFoundError:
                continue  # another write has just put its file in place
            yield found.st_mtime, found.st_size, path

    def _path(self, digest: str, access: str) -> Path:
        by = hashlib.sha256(access.encode()).hexdigest()[:32]
        return self.folder / f"{digest.replace(':', '-')}-{by}"
