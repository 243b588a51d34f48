"""Layers come from anywhere: whatever is in them, the answer is a text or a reason, in bounded memory."""

import gzip
import io
import tarfile
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kyma_oci import SourceError, text_in
from kyma_oci.limits import MAX_BYTES
from kyma_oci.problems import ArchiveUnsafe, LayerTooLarge, LayerTruncated
from tests.modules import as_text, operator
from tests.registries import packed

TEXT = as_text(operator("garden", "1.0.0")[2:6])
WHOLE = packed({"a.yaml": TEXT, "folder/b.json": "{}", "notes.txt": "no object"})


def is_a_text_or_a_reason(content: bytes) -> bool:
    try:
        return isinstance(text_in(content, "layer"), bytes)
    except SourceError as error:
        return "layer" in str(error)


@given(st.binary(max_size=2_000))
def test_any_bytes_are_a_text_or_a_reason(content: bytes) -> None:
    assert is_a_text_or_a_reason(content)


@given(st.integers(0, len(WHOLE) - 1), st.integers(0, 255), st.booleans())
def test_layer_that_is_cut_or_changed_anywhere_is_a_text_or_a_reason(place: int, value: int, cut: bool) -> None:
    changed = WHOLE[:place] if cut else WHOLE[:place] + bytes([value]) + WHOLE[place + 1 :]
    assert is_a_text_or_a_reason(changed)


@given(st.integers(0, 600), st.integers(0, 255))
def test_header_of_a_tar_that_is_changed_anywhere_is_a_text_or_a_reason(place: int, value: int) -> None:
    plain = bytearray(gzip.decompress(WHOLE))
    plain[place] = value
    assert is_a_text_or_a_reason(bytes(plain))


@pytest.mark.parametrize(("kind", "content"), [(b"L", b"a.yaml\0"), (b"x", b"15 path=a.yaml\n")], ids=["GNU", "PAX"])
def test_long_chain_of_extended_headers_is_a_text_or_a_reason(kind: bytes, content: bytes) -> None:
    def header(of: bytes, size: int = 0) -> bytes:
        info = tarfile.TarInfo("a.yaml")
        info.type, info.size = of, size
        return info.tobuf(tarfile.GNU_FORMAT)

    chain = (header(kind, len(content)) + content.ljust(512, b"\0")) * 1000
    assert is_a_text_or_a_reason(chain + header(b"0") + bytes(1024))


def test_objects_are_read_from_yaml_and_json_files_alone() -> None:
    assert text_in(WHOLE, "layer") == f"{TEXT}\n---\n{{}}".encode()


@pytest.mark.parametrize("name", ["manifest", "rendered/manifest.tmpl"])
def test_file_that_is_alone_in_an_archive_may_have_any_name(name: str) -> None:
    assert text_in(packed({name: TEXT}), "layer") == TEXT.encode()


@pytest.mark.parametrize("wrap", [lambda it: it, gzip.compress], ids=["plain", "gzip"])
def test_plain_text_needs_no_archive(wrap: Callable[[bytes], bytes]) -> None:
    assert text_in(wrap(TEXT.encode()), "layer") == TEXT.encode()


def test_gigabyte_in_a_small_layer_is_refused_in_bounded_memory() -> None:
    bomb = gzip.compress(bytes(MAX_BYTES), 9) * 64
    assert len(bomb) < 2 * 1024 * 1024
    tracemalloc.start()
    try:
        with pytest.raises(LayerTooLarge):
            text_in(bomb, "layer")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 * MAX_BYTES


def test_sparse_file_that_says_it_is_huge_is_refused() -> None:
    member = tarfile.TarInfo("a.yaml")
    member.type, member.size = tarfile.GNUTYPE_SPARSE, 0
    header = bytearray(member.tobuf(tarfile.GNU_FORMAT))
    with pytest.raises((ArchiveUnsafe, LayerTruncated)):
        text_in(bytes(header) + bytes(10_240), "layer")


def test_member_that_says_it_is_larger_than_the_archive_is_refused() -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        member = tarfile.TarInfo("a.yaml")
        member.size = 512
        archive.addfile(member, io.BytesIO(bytes(512)))
    member.size = 8 * 1024**3
    lying = member.tobuf(tarfile.GNU_FORMAT) + buffer.getvalue()[512:]
    with pytest.raises(LayerTruncated):
        text_in(lying, "layer")


def test_member_of_negative_size_leads_back_to_no_member_before_it() -> None:
    def header(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
        info = tarfile.TarInfo(name)
        info.type = kind
        block = bytearray(info.tobuf(tarfile.GNU_FORMAT))
        block[124:136] = b"\xff" * 4 + size.to_bytes(8, "big", signed=True) if size < 0 else b"%011o\0" % size
        block[148:156] = b" " * 8
        block[148:156] = b"%06o\0 " % sum(block)
        return bytes(block)

    file = header("a.yaml", 64 * 1024) + b"#" * 64 * 1024
    lying = header("folder", 0, tarfile.DIRTYPE) + file + header("b.txt", -len(file) - 512) + bytes(1024)
    with pytest.raises((ArchiveUnsafe, LayerTruncated)):
        text_in(lying, "layer")


def test_attributes_that_macos_packs_beside_files_are_no_objects() -> None:
    attributes = {"._a.yaml": "\0\x05\x16\x07", "__MACOSX/folder/._b.json": "\0\x05\x16\x07"}
    assert (
        text_in(packed({**attributes, "a.yaml": TEXT, "._folder/b.yaml": "{}"}), "layer")
        == f"{TEXT}\n---\n{{}}".encode()
    )
