"""Layers on the disk, by their digest, so that a restart asks no registry again.

The cache is a convenience: a disk that can't be written or a file that is not what its name says is as good as none.
"""

import hashlib
import os
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import structlog

log = structlog.get_logger("manifest")

MOST_BYTES = 1024 * 1024 * 1024


@dataclass(frozen=True, eq=False)
class Blobs:
    """Files in a folder, at most so many bytes of them; the one that was not read for longest goes first."""

    folder: Path
    most_bytes: int = MOST_BYTES

    def read(self, digest: str) -> bytes | None:
        """Return the content of a digest, None where it is not there."""
        path = self._path(digest)
        try:
            content = path.read_bytes()
        except OSError:
            return None
        if f"sha256:{hashlib.sha256(content).hexdigest()}" != digest:
            with suppress(OSError):
                path.unlink()
            return None
        with suppress(OSError):
            os.utime(path)
        return content

    def write(self, digest: str, content: bytes) -> None:
        """Keep the content of a digest, if that is possible."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._put(self._path(digest), content)
            self._make_room()
        except OSError as error:
            log.warning("layer not kept", digest=digest, error=str(error))

    def _put(self, path: Path, content: bytes) -> None:
        """Have the file there as a whole or not at all, and nothing beside it."""
        handle, name = tempfile.mkstemp(dir=self.folder)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            Path(name).replace(path)
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise

    def _make_room(self) -> None:
        files = sorted((path.stat().st_mtime, path.stat().st_size, path) for path in self.folder.iterdir())
        size = sum(each for _, each, _ in files)
        for _, each, path in files:
            if size <= self.most_bytes:
                return
            path.unlink(missing_ok=True)
            size -= each

    def _path(self, digest: str) -> Path:
        return self.folder / digest.replace(":", "-")
