"""Layers and bases from archives of root file systems, without Debian's packages."""

import io
import tarfile
from pathlib import Path

import pytest

from tools.images.bases import BaseMissing, find_base
from tools.images.layers import layer_of_folder

PYTHON = "usr/local/bin/python3.12"


def test_layer_of_a_folder_depends_on_its_contents_only(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder, names in ((first, ("a", "b")), (second, ("b", "a"))):
        folder.mkdir()
        for name in names:
            (folder / name).write_text(name)
    (second / "a").chmod(0o600)
    layers = [layer_of_folder(each, at="opt", time=7, target=tmp_path / f"{each.name}.tar") for each in (first, second)]
    assert layers[0].digest == layers[1].digest
    with tarfile.open(layers[0].path) as tar:
        entries = {entry.name: (entry.mode, entry.mtime, entry.uid) for entry in tar}
    assert entries == {"opt": (0o755, 7, 0), "opt/a": (0o644, 7, 0), "opt/b": (0o644, 7, 0)}


def test_base_from_an_archive_has_no_caches_pip_or_host_name_and_names_its_python(tmp_path: Path) -> None:
    root = _archive(
        tmp_path,
        PYTHON,
        "etc/hostname",
        "etc/passwd",
        "etc/resolv.conf",
        "usr/local/bin/pip3.12",
        "usr/local/lib/python3.12/ensurepip/__init__.py",
        "usr/local/lib/python3.12/site-packages/pip-25.1.dist-info/METADATA",
        "usr/local/lib/python3.12/site-packages/pipe.py",
        "usr/share/doc/libc6/copyright",
        "var/cache/apt/pkgcache.bin",
    )
    base = find_base(root, time=7, scratch=tmp_path)
    assert (base.python, base.status) == (f"/{PYTHON}", "")
    assert (base.root / PYTHON).is_file()
    with tarfile.open(base.layer.path) as tar:
        assert tar.getnames() == ["etc/passwd", PYTHON, "usr/local/lib/python3.12/site-packages/pipe.py"]


@pytest.mark.parametrize("files", [(), (PYTHON, "usr/bin/python3.11")])
def test_base_without_exactly_one_interpreter_is_refused(tmp_path: Path, files: tuple[str, ...]) -> None:
    with pytest.raises(BaseMissing, match=rf"{len(files)} interpreters of Python .*; expected 1"):
        find_base(_archive(tmp_path, *files), time=7, scratch=tmp_path)


def test_base_that_is_no_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "root.tar").write_text("FROM python")
    with pytest.raises(BaseMissing, match="not a tar archive"):
        find_base(tmp_path / "root.tar", time=7, scratch=tmp_path)


def _archive(folder: Path, *names: str) -> Path:
    with tarfile.open(folder / "root.tar", "w") as tar:
        for name in names:
            tar.addfile(tarfile.TarInfo(f"./{name}"), io.BytesIO())
    return folder / "root.tar"
