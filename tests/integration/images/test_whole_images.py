"""The images as `make images` builds them: on Debian's packages, without a container engine."""

import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from typing import IO

import msgspec
import pytest
from spdx_tools.spdx.parser.parse_anything import parse_file

from tools.images.bases import Base, BaseMissing, find_base
from tools.images.build import ENTRY_POINTS, USER, Built, Commit, build
from tools.release.installation import unpack_image

pytestmark = [
    pytest.mark.xdist_group("images"),
    pytest.mark.skipif(shutil.which("mmdebstrap") is None, reason="no mmdebstrap on this machine: make node-tools"),
]
COMMIT = Commit(digest="0" * 40, time=1_700_000_000)
BuildImage = Callable[[str], Built]


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    """Make the base from Debian's packages, where they are there."""
    try:
        return find_base(None, time=COMMIT.time, scratch=tmp_path_factory.mktemp("base"))
    except BaseMissing as error:
        pytest.skip(f"no base from Debian's packages on this machine: {error}")


@pytest.fixture(scope="session")
def built(base: Base, context: Path, tmp_path_factory: pytest.TempPathFactory) -> BuildImage:
    """Build an image, once."""
    target = tmp_path_factory.mktemp("images")
    done: dict[str, Built] = {}

    def build_once(name: str) -> Built:
        if name not in done:
            done[name] = build(name, base=base, commit=COMMIT, sources=context, target=target)
        return done[name]

    return build_once


def test_second_build_elsewhere_has_the_same_digest(
    base: Base, context: Path, built: BuildImage, tmp_path: Path
) -> None:
    sources = shutil.copytree(context, tmp_path / "sources")
    again = build("skr-watcher", base=base, commit=COMMIT, sources=sources, target=tmp_path)
    assert again.image.digest == built("skr-watcher").image.digest


@pytest.mark.parametrize("name", ["lifecycle-manager", "skr-watcher"])
def test_image_has_no_pip_and_no_compiler(built: BuildImage, name: str) -> None:
    files = _files(built(name))
    assert "usr/bin/python3.13" in files
    assert f"opt/kyma/bin/{ENTRY_POINTS[name][0]}" in files
    unwanted = re.compile(r".*(bin/(gcc.*|cc|ld|pip.*|apt.*)|/cc1|/(ensure)?pip/__init__\.py)")
    assert not [file for file in files if unwanted.fullmatch(file)]


def test_list_of_packages_is_that_of_the_image(built: BuildImage, base: Base) -> None:
    image = built("skr-watcher")
    document = parse_file(str(image.image.path.with_suffix(".spdx.json")))
    listed = {
        reference.locator: package.version for package in document.packages for reference in package.external_references
    }
    installed = {match[1] for file in _files(image) if (match := re.fullmatch(r".*/([^/]+)\.dist-info/METADATA", file))}
    assert len([purl for purl in listed if purl.startswith("pkg:pypi/")]) == len(installed)
    assert any(purl.startswith("pkg:pypi/kyma-skr-watcher@") for purl in listed)
    assert len([purl for purl in listed if purl.startswith("pkg:deb/")]) == base.status.count("Status: install ok")
    assert len(listed) == image.packages


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may change the root folder of a program")
def test_klm_has_all_of_its_commands_in_the_image(built: BuildImage, tmp_path: Path) -> None:
    root = unpack_image(built("lifecycle-manager").image.path, tmp_path)
    command = ["chroot", f"--userspec={USER}", str(root), "/opt/kyma/bin/klm", "--help"]
    printed = subprocess.run(
        command, env={**os.environ, "COLUMNS": "200"}, capture_output=True, text=True, check=True
    ).stdout
    listed = set(re.findall(r"^  ([a-z-]+)  +\S", printed, re.MULTILINE))
    assert {command.name for command in entry_points(group="klm.commands")} | {"run", "debug", "crds"} <= listed


def _files(built: Built) -> list[str]:
    with _layers(built) as layers:
        return [entry.name for layer in layers for entry in layer]


@contextmanager
def _layers(built: Built) -> Iterator[list[tarfile.TarFile]]:
    with ExitStack() as stack:
        image = stack.enter_context(tarfile.open(built.image.path))

        def content(name: str) -> IO[bytes]:
            file = image.extractfile(f"blobs/{name.replace(':', '/')}" if ":" in name else name)
            assert file is not None
            return stack.enter_context(file)

        index = msgspec.json.decode(content("index.json").read())
        manifest = msgspec.json.decode(content(index["manifests"][0]["digest"]).read())
        layers = [content(layer["digest"]) for layer in manifest["layers"]]
        yield [stack.enter_context(tarfile.open(fileobj=layer)) for layer in layers]
