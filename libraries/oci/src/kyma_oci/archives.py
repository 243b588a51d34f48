"""From the bytes of a layer to the text in it, which is plain YAML or a tar of such files, either in gzip; and back.

Nothing is written to disk, so the path of a member has no effect; an archive with links, devices or paths with `..` is
refused nevertheless, since no module is packed like that by mistake. The unpacked size is bounded.
"""

import io
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import PurePath, PurePosixPath

from kyma_oci.limits import MAX_BYTES, MAX_FILES, MAX_MEMBERS, MAX_RATIO, RATIO_COUNTS_FROM
from kyma_oci.problems import ArchiveUnsafe, LayerTooLarge, LayerTruncated

CHUNK = 256 * 1024
SLICE = 8 * 1024
_GZIP = b"\x1f\x8b"
_READ = frozenset({".yaml", ".yml", ".json"})


def holds_objects(path: PurePath) -> bool:
    """Tell by its name whether a file is read: one of YAML or JSON that is not one of attributes.

    macOS keeps the attributes of a file in another one, beside it or in the folder __MACOSX.
    """
    return path.suffix.lower() in _READ and not path.name.startswith("._")


def text_in(content: bytes, name: object) -> bytes:
    """Return the YAML text of a layer. `name` is for messages. Raises SourceError."""
    plain = _inflated(content, name) if content.startswith(_GZIP) else content
    if not _is_tar(plain):
        return _bounded(plain, name)
    try:
        with tarfile.open(fileobj=io.BytesIO(plain), mode="r:") as archive:
            return b"\n---\n".join(_files(archive, name))
    except (tarfile.TarError, EOFError, OSError, ValueError, RecursionError) as error:  # tarfile recurses by headers
        raise LayerTruncated(f"{name} is a broken tar: {error}") from None


def unpacking_size(content: bytes) -> int:
    """Return how many bytes a layer may unpack to at most, roughly."""
    return min(len(content) * MAX_RATIO, MAX_BYTES) if content.startswith(_GZIP) else len(content)


def archive_of(name: str, text: str) -> bytes:
    """Return a reproducible tar of one file: without its time and owner."""
    content, buffer = text.encode(), io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        entry = tarfile.TarInfo(name)
        entry.size = len(content)
        entry.mode = 0o644
        archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def _inflated(content: bytes, name: object) -> bytes:
    """Unpack gzip, member after member, up to the maximum size.

    Each member is fed in slices, since zlib copies what is left over after its end.
    """
    parts, size, place, members = [], 0, 0, 0
    while content.startswith(_GZIP, place):
        members += 1
        if members > MAX_MEMBERS:
            raise LayerTooLarge(f"{name} has more than {MAX_MEMBERS} gzip members")
        unpacker = zlib.decompressobj(wbits=31)
        fed = b""
        while not unpacker.eof:
            if not fed:
                fed = content[place : place + SLICE]
                place += len(fed)
            try:
                part = unpacker.decompress(fed, CHUNK)
            except zlib.error as error:
                raise LayerTruncated(f"{name} is broken gzip: {error}") from None
            if not part and not fed and not unpacker.eof:
                raise LayerTruncated(f"{name} ends in the middle of its gzip")
            fed = unpacker.unconsumed_tail
            size += len(part)
            _check_size(size, len(content), name)
            parts.append(part)
        place -= len(unpacker.unused_data)
    return b"".join(parts)


def _check_size(size: int, packed: int, name: object) -> None:
    if size > MAX_BYTES:
        raise LayerTooLarge(f"{name} unpacks to more than {MAX_BYTES} bytes")
    if size > RATIO_COUNTS_FROM and size > packed * MAX_RATIO:
        raise LayerTooLarge(f"{name} unpacks to more than {MAX_RATIO} times its size")


def _is_tar(content: bytes) -> bool:
    return content[257:262] == b"ustar"


def _files(archive: tarfile.TarFile, name: object) -> Iterator[bytes]:
    """Yield the files with objects; one that is alone may have any name, as modulectl packs it."""
    files = list(_members(archive, name))
    for member in files:
        if len(files) > 1 and not holds_objects(PurePosixPath(member.name)):
            continue
        file = archive.extractfile(member)
        content = file.read() if file is not None else b""
        if len(content) != member.size:
            raise LayerTruncated(f"{name} ends in the middle of {member.name}")
        yield content


def _members(archive: tarfile.TarFile, name: object) -> Iterator[tarfile.TarInfo]:
    for number, member in enumerate(archive):
        if number >= MAX_FILES:
            raise LayerTooLarge(f"{name} has more than {MAX_FILES} files")
        _refuse_unsafe(member, name)
        if member.isfile():
            yield member


def _refuse_unsafe(member: tarfile.TarInfo, name: object) -> None:
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts:
        raise ArchiveUnsafe(f"{name} holds the path {member.name!r}, which leaves the archive")
    if member.size < 0:  # the next header would be read from before this one, again and again
        raise ArchiveUnsafe(f"{name} holds {member.name!r}, which has a negative size")
    if member.issparse() or not (member.isfile() or member.isdir()):
        raise ArchiveUnsafe(f"{name} holds {member.name!r}, which is neither a file nor a folder")


def _bounded(content: bytes, name: object) -> bytes:
    if len(content) > MAX_BYTES:
        raise LayerTooLarge(f"{name} has more than {MAX_BYTES} bytes")
    return content
