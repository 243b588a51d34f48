"""Packages the charts, which name the images of their release: `python -m tools.release.charts FOLDER [options]`.

The chart of module-manager names no digest: a module team replaces its image, and a digest would win over their tag.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from kyma_local.helm import find_helm
from tools.release.version import CHARTS, current

PINNED = {
    "lifecycle-manager": {"image": "lifecycle-manager", "watcher": "skr-watcher"},
    "skr-watcher": {"image": "skr-watcher"},
}
"""For each chart the values with a digest, and the image of each."""


class NotPinned(Exception):
    """A chart's values have no place for what is to be set."""


class ArchiveInvalid(Exception):
    """An archive is none of an image."""


class Descriptor(msgspec.Struct):
    digest: str


class Index(msgspec.Struct):
    """The part of an archive's index that is used."""

    manifests: list[Descriptor]


def main() -> int:
    """Package the charts of this version."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--registry", default="", help="where the images are")
    parser.add_argument("--image", action="append", default=[], metavar="NAME=sha256:…", help="an image's digest")
    options = parser.parse_args()
    package(options.folder, dict(each.split("=", 1) for each in options.image), registry=options.registry)
    return 0


def package(target: Path, digests: Mapping[str, str], *, registry: str = "") -> None:
    """Package each chart; an image without a digest is named by its tag. Raises NotPinned, CalledProcessError."""
    version = current()
    with TemporaryDirectory(prefix="charts-") as text:
        for chart in CHARTS:
            folder = Path(text) / chart.parent.name
            shutil.copytree(chart.parent, folder)
            values = folder / "values.yaml"
            values.write_text(pinned(values.read_text(), folder.name, digests, registry=registry))
            given = ("--version", version, "--app-version", version, "--destination", target)
            command = [find_helm(), "package", folder, *given]
            subprocess.run(list(map(str, command)), check=True)


def pinned(values: str, chart: str, digests: Mapping[str, str], *, registry: str) -> str:
    """Return a chart's values with the registry and the digests of its images. Raises NotPinned."""
    values = _set(values, "image", "registry", registry)
    for key, image in PINNED.get(chart, {}).items():
        values = _set(values, key, "digest", digests.get(image, ""))
    return values


def digest_of(archive: Path) -> str:
    """Return the digest by which a registry names the image of an archive."""
    with tarfile.open(archive) as tar:
        (manifest,) = msgspec.json.decode(content_of(tar, "index.json"), type=Index).manifests
    return manifest.digest


def content_of(archive: tarfile.TarFile, name: str) -> bytes:
    """Return the content of a file of an archive. Raises ArchiveInvalid."""
    found = archive.extractfile(name)
    if found is None:
        raise ArchiveInvalid(f"{archive.name!r}: {name} is not a file")
    return found.read()


def _set(values: str, key: str, name: str, value: str) -> str:
    """Set an empty value below a key, and keep the comments."""
    pattern = rf'(^{key}:\n(?:(?:  .*)?\n)*?  {name}: )""$'
    if not value:
        return values
    changed, count = re.subn(pattern, rf'\g<1>"{value}"', values, flags=re.MULTILINE)
    if count != 1:
        raise NotPinned(f"values.yaml has {count} empty values {key}.{name}; expected 1")
    return changed


if __name__ == "__main__":
    sys.exit(main())
