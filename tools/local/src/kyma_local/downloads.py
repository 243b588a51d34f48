"""Downloads files over HTTPS, and verifies their checksums.

`$KLM_DOWNLOADS_MIRROR` is the address of a mirror, which has each file below its host: MIRROR/dl.k8s.io/…
"""

import hashlib
import os
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from kyma_local.progress import Listener
from kyma_local.sources import SourceFailed

MIRROR = "KLM_DOWNLOADS_MIRROR"
CONNECT_SECONDS = 4.0
READ_SECONDS = 60.0


class VerifiedDownloads:
    """Downloads files into a scratch folder."""

    def __init__(self, client: httpx.Client, scratch: Path, listener: Listener) -> None:
        self._client = client
        self._scratch = scratch
        self._listener = listener

    @classmethod
    @contextmanager
    def into(cls, scratch: Path, listener: Listener) -> "Iterator[VerifiedDownloads]":
        """Open connections for some downloads."""
        limits = httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
        with httpx.Client(timeout=limits, follow_redirects=True) as client:
            yield cls(client, scratch, listener)

    def text(self, url: str) -> str:
        """Return a small text. Raises SourceFailed."""
        try:
            answer = self._client.get(_mirrored(url)).raise_for_status()
        except httpx.HTTPError as error:
            raise SourceFailed(f"{_mirrored(url)}: {error or type(error).__name__}") from None
        if not answer.text.strip():
            raise SourceFailed(f"{_mirrored(url)} is empty")
        return answer.text

    def verified(self, url: str, expected: str) -> Path:
        """Download a file and check its SHA-256. Raises SourceFailed."""
        name = url.rpartition("/")[2]
        self._listener.doing(f"downloading {name}")
        digest = hashlib.sha256()
        path = self._scratch / name
        try:
            with self._client.stream("GET", _mirrored(url)) as answer, path.open("wb") as file:
                total = int(answer.raise_for_status().headers.get("Content-Length", 0))
                for chunk in answer.iter_bytes():
                    digest.update(chunk)
                    file.write(chunk)
                    self._listener.done(file.tell(), total)
        except httpx.HTTPError as error:
            raise SourceFailed(f"{_mirrored(url)}: {error or type(error).__name__}") from None
        if digest.hexdigest() != expected:
            raise SourceFailed(f"{_mirrored(url)}: SHA-256 is {digest.hexdigest()}, expected {expected or 'none'}")
        return path


def unpacked(archive: Path, program: str) -> Path:
    """Extract the program of this name, which may be in any folder of the archive. Raises SourceFailed."""
    path = archive.with_name(program)
    try:
        with tarfile.open(archive) as tar:
            found = (each for each in tar if each.isfile() and each.name.rpartition("/")[2] == program)
            content = next((tar.extractfile(each) for each in found), None)
            if content is None:
                raise SourceFailed(f"{archive.name} has no program {program}")
            path.write_bytes(content.read())
    except tarfile.TarError as error:
        raise SourceFailed(f"{archive.name}: {error}") from None
    return path


def _mirrored(url: str) -> str:
    mirror = os.environ.get(MIRROR, "").rstrip("/")
    return f"{mirror}/{url.partition('://')[2]}" if mirror else url
