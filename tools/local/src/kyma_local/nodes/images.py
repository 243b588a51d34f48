"""The images that every node needs, each of one program: CoreDNS, and the one that holds the namespaces of a Pod."""

import tarfile
from pathlib import Path

from kyma_local.nodes.programs import IN_IMAGES
from kyma_local.oci_archive import LayerArchive, write_image

CREATED = "1970-01-01T00:00:00Z"
VERSION = "local"


def image_name(program: str) -> str:
    """Return the name of an image."""
    return f"localhost/{program}:{VERSION}"


def write_images(programs: Path, target: Path) -> tuple[Path, ...]:
    """Write the images as OCI archives into a folder; return their paths."""
    return tuple(_write(name, programs / name, target) for name in IN_IMAGES)


def _write(name: str, program: Path, target: Path) -> Path:
    layer = target / f"{name}.layer.tar"
    with tarfile.open(layer, "w", format=tarfile.PAX_FORMAT) as tar:
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode = program.stat().st_size, 0o755
        with program.open("rb") as file:
            tar.addfile(entry, file)
    config = {"User": "10001:10001", "WorkingDir": "/", "Entrypoint": [f"/{name}"]}
    image = write_image(
        target / f"{name}.tar", name=image_name(name), layers=(LayerArchive.of(layer),), config=config, created=CREATED
    )
    layer.unlink()
    return image.path
