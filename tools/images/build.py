"""Builds the three images of the last commit: `python -m tools.images.build`."""

import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from kyma_local.oci_archive import Image, write_image
from tools.images.bases import Base, BaseMissing, find_base
from tools.images.engines import Engine, EngineFailed, find_engine
from tools.images.layers import layer_of_folder
from tools.images.packages import write_packages
from tools.images.within import run_within, unpack
from tools.release.version import current

AT = "opt/kyma"
USER = "10001:10001"
ENTRY_POINTS = {
    "lifecycle-manager": ("klm", ["run"]),
    "skr-watcher": ("skr-watcher", []),
    "module-manager": ("kyma-module-manager", []),
}
STAMP = "built-from"  # the commit and the base of the images in a folder
MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """The commit that the images are built from."""

    digest: str
    time: int

    @property
    def created(self) -> datetime:
        """When it was made; this is the time of everything in the images."""
        return datetime.fromtimestamp(self.time, UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """An image, its part beyond the base, and the number of its packages."""

    name: str
    image: Image
    own_size: int
    packages: int


class InstallationFailed(Exception):
    """The programs of an image cannot be installed."""


def build(name: str, *, base: Base, commit: Commit, sources: Path, target: Path) -> Built:
    """Build one image from its sources into a folder. Raises InstallationFailed."""
    with tempfile.TemporaryDirectory(prefix="klm-image-") as scratch:
        installed = _install(name, base, sources, Path(scratch))
        own = layer_of_folder(installed, at=AT, time=commit.time, target=Path(scratch) / "own.tar")
        program, arguments = ENTRY_POINTS[name]
        image = write_image(
            target / f"{name}.tar",
            name=f"localhost/{name}:{current()}",
            layers=(base.layer, own),
            config=_config(program, arguments, commit),
            created=commit.created.isoformat().replace("+00:00", "Z"),
        )
        packages = write_packages(
            target / f"{name}.spdx.json",
            image=name,
            digest=image.digest,
            installed=installed,
            status=base.status,
            created=commit.created,
        )
    return Built(name=name, image=image, own_size=own.size, packages=packages)


def _config(program: str, arguments: list[str], commit: Commit) -> dict[str, Any]:
    path = f"/{AT}/bin:/usr/local/bin:/usr/bin:/bin"
    return {
        "User": USER,
        "WorkingDir": "/",
        # The root file system is mounted read-only.
        "Env": [f"PATH={path}", "PYTHONDONTWRITEBYTECODE=1", "PYTHONUNBUFFERED=1"],
        "Entrypoint": [program],
        "Cmd": arguments,
        "Labels": {"org.opencontainers.image.revision": commit.digest},
    }


def _install(name: str, base: Base, sources: Path, scratch: Path) -> Path:
    """Install the programs by the base's interpreter; return their folder. Raises InstallationFailed."""
    folder = base.root / AT
    shutil.rmtree(folder, ignore_errors=True)  # of another image
    uv = str(shutil.copy(Path(sys.executable).with_name("uv"), scratch))
    command = ("tools/images/install.sh", name, f"/{AT}")
    done = run_within(base.root, *command, folder=sources, environment={"UV": uv, "UV_PYTHON": base.python})
    if done.returncode:
        raise InstallationFailed(f"{' '.join(command)}: {done.stderr.strip()[-2000:]}")
    return folder


def _last_commit() -> Commit:
    digest, _, time = _git("log", "-1", "--format=%H %ct").decode().strip().partition(" ")
    return Commit(digest=digest, time=int(time))


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], capture_output=True, check=True).stdout


def main(
    base: Annotated[
        str | None,
        typer.Option(help="image, or archive of a root file system, with Python; default: Debian's packages"),
    ] = None,
    target: Annotated[Path, typer.Option(help="folder for the images")] = Path(".local/images"),
) -> None:
    """Build the images of the last commit, list their packages, and load them into a container engine."""
    console = Console()
    commit = _last_commit()
    if _git("status", "--porcelain"):
        console.print("uncommitted changes are not in the images", style="yellow")
    target.mkdir(parents=True, exist_ok=True)
    stamp, source = target / STAMP, f"{commit.digest} {base or 'Debian'}\n"
    if (
        stamp.exists()
        and stamp.read_text() == source
        and all((target / f"{name}.tar").exists() for name in ENTRY_POINTS)
    ):
        console.print(f"{target} has the images of the last commit", highlight=False)
        return
    stamp.unlink(missing_ok=True)
    engine = find_engine()
    with tempfile.TemporaryDirectory(prefix="klm-images-") as scratch:
        sources = Path(scratch) / "sources"
        archive = Path(scratch) / "sources.tar"
        _git("archive", f"--output={archive}", commit.digest)
        unpack(archive, sources)
        try:
            with console.status("finding the base"):
                found = find_base(_root(base, engine, Path(scratch)), time=commit.time, scratch=Path(scratch))
            built = []
            for name in ENTRY_POINTS:
                with console.status(f"building {name}"):
                    built.append(build(name, base=found, commit=commit, sources=sources, target=target))
            _report(built, console)
            if engine is not None:
                for each in built:
                    engine.load(each.image.path)
                console.print(f"loaded into {engine.name}", highlight=False)
            stamp.write_text(source)
        except (BaseMissing, EngineFailed, InstallationFailed) as error:
            console.print(str(error), style="red", markup=False, soft_wrap=True)
            raise typer.Exit(1) from None


def _root(base: str | None, engine: Engine | None, scratch: Path) -> Path | None:
    """Return the archive that was named, or of the image that was named. Raises BaseMissing and EngineFailed."""
    if base is None or Path(base).is_file():
        return None if base is None else Path(base)
    if engine is None:
        raise BaseMissing(f"{base} is no file, and no container engine runs that could pull an image of this name")
    engine.export_root(base, scratch / "root.tar")
    return scratch / "root.tar"


def _report(built: list[Built], console: Console) -> None:
    table = Table("image", "size", "beyond the base", "packages", box=None)
    for each in built:
        sizes = (f"{size / MEGABYTE:.0f} MB" for size in (each.image.size, each.own_size))
        table.add_row(str(each.image.path), *sizes, str(each.packages))
    console.print(table, soft_wrap=True)
    for each in built:
        console.print(f"{each.image.digest}  {each.image.path}", highlight=False, soft_wrap=True)


if __name__ == "__main__":
    typer.run(main)
