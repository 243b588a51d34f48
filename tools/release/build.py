"""Builds what is released into .local/dist: `python -m tools.release.build [--check] [--charts FOLDER]`.

Wheels and sdists of all distributions, klm with all commands as one file (`klm.pyz`, for this Python and platform) and
its SBOM, the images where this machine can build them, the charts, which name these, the site, and provenance and
checksums of all. With `--charts` the charts are those of the folder, which were released already. With `--check` each
is installed into an empty place, without the source tree: the wheels, without a package index, into a venv from which
the demos are run, the charts into an API server, and the images into folders.
"""

import argparse
import asyncio
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from kyma_local.cache import cache_root
from kyma_local.sources import KUBERNETES
from tools.release.charts import digest_of, package
from tools.release.evidence import write_checksums, write_provenance, write_sbom
from tools.release.installation import install_charts, run_image
from tools.release.version import CHARTS, current

DIST = Path(".local/dist")
SITE = Path(".local/site/html")
IMAGES = Path(".local/images")
BIN = Path(sys.executable).parent
KLM = "kyma-lifecycle-manager"
INTERPRETER = "/usr/bin/env python3"


def main() -> int:
    """Build, and check what was built."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="install it and run it")
    parser.add_argument("--charts", type=Path, help="the folder with the charts of the registry")
    options = parser.parse_args()
    began = time.monotonic()
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir(parents=True)
    with TemporaryDirectory(prefix="release-") as text:
        folder = Path(text)
        build_distributions()
        build_zipapp(folder)
        images = build_images()
        build_charts(images, options.charts)
        build_site()
        write_provenance(DIST, current())
        write_checksums(DIST)
        built = len(list(DIST.iterdir()))
        _say(f"{built} files of version {current()} in {DIST}, {time.monotonic() - began:.0f} s")
        if options.check:
            check(folder, images, is_released=options.charts is not None)
            _say(f"installed and run, {time.monotonic() - began:.0f} s")
    return 0


def build_distributions() -> None:
    """Build the wheels and sdists."""
    _say("wheels and sdists")
    _run(BIN / "uv", "build", "--quiet", "--all-packages", "--out-dir", DIST)
    (DIST / ".gitignore").unlink(missing_ok=True)


def build_zipapp(folder: Path) -> None:
    """Build klm as one file, of the wheels and the locked dependencies."""
    _say("klm.pyz")
    site = folder / "lib" / "python" / "site-packages"
    _install(folder, "--target", site)
    given = (
        "--site-packages",
        site,
        "--console-script",
        "klm",
        "--python",
        INTERPRETER,
        "--compressed",
        "--reproducible",
    )
    _run(BIN / "shiv", *given, "--output-file", DIST / "klm.pyz")
    write_sbom(DIST, installed=folder)


def build_charts(digests: Mapping[str, str], released: Path | None = None) -> None:
    """Package the charts, with the digests of the images as far as there are any, or copy the released ones."""
    _say("charts")
    if released is None:
        package(DIST, digests)
        return
    for chart in CHARTS:
        shutil.copy(released / f"{chart.parent.name}-{current()}.tgz", DIST)


def build_site() -> None:
    """Pack the documentation's site, which `make docs` has built. Raises FileNotFoundError without its first page."""
    _say("site")
    (SITE / "index.html").stat()
    _run("tar", "--create", "--gzip", "--directory", SITE, "--file", DIST / f"site-{current()}.tar.gz", ".")


def build_images() -> dict[str, str]:
    """Build the images and pack them, where their base can be made; return their digests."""
    if os.geteuid() or shutil.which("mmdebstrap") is None:
        _say("images: skipped; mmdebstrap and root are required (make node-tools)")
        return {}
    _say("images")
    _run(sys.executable, "-m", "tools.images.build", quiet=True)
    for file in sorted(IMAGES.glob("*.tar")) + sorted(IMAGES.glob("*.spdx.json")):
        shutil.copy(file, DIST / file.name)
    return {file.stem: digest_of(file) for file in IMAGES.glob("*.tar")}


def check(folder: Path, images: Mapping[str, str], *, is_released: bool = False) -> None:
    """Install everything, and run it. Raises CalledProcessError, HelmFailed, NotInstalled."""
    _run("sha256sum", "--check", "--quiet", "SHA256SUMS", cwd=DIST)
    _say("the charts on an empty API server")
    asyncio.run(install_charts(DIST, current(), images, folder, is_released=is_released))
    for name in images:
        _say(f"the image {name} in an empty folder")
        (root := folder / name).mkdir()
        run_image(DIST / f"{name}.tar", root)
    check_programs(folder, with_nodes=bool(images))


def check_programs(folder: Path, *, with_nodes: bool) -> None:
    """Run klm from an empty venv, and as one file. Raises CalledProcessError."""
    _say("installing the wheels into an empty venv")
    venv, empty = folder / "venv", folder / "empty"
    empty.mkdir()
    _run(BIN / "uv", "venv", "--quiet", "--python", sys.executable, venv)
    _install(folder, "--python", venv / "bin" / "python")
    environment = {"PATH": f"{venv / 'bin'}:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(empty), "SHIV_ROOT": str(empty)}
    for klm in ((venv / "bin" / "klm",), (venv / "bin" / "python", DIST.resolve() / "klm.pyz")):
        _run(*klm, "--version", cwd=empty, env=environment)
        _run(*klm, "module", "--help", cwd=empty, env=environment, quiet=True)
    environment["XDG_CACHE_HOME"] = str(cache_root().parent)  # the API servers are not built again
    demo = (venv / "bin" / "klm", "demo", "--once")
    _say("the demo on real API servers")
    _run(*demo, cwd=empty, env=environment, quiet=True)
    _say("a rollout on simulated clusters")
    _run(*demo, "--rollout", "--clusters", "20", cwd=empty, env=environment, quiet=True)
    if not with_nodes or not (cache_root() / f"node-{KUBERNETES}" / "kubelet").exists():
        _say("the demo on nodes: skipped; images, and the programs of nodes are required (make test-nodes)")
        return
    _say("the demo on real nodes")
    given = ("--nodes", "--images", DIST.resolve(), "--charts", Path("charts").resolve())
    _run(*demo, *given, cwd=empty, env=environment, quiet=True)


def _install(folder: Path, *where: object) -> None:
    """Install the locked dependencies, then the wheels without an index."""
    required = folder / "requirements.txt"
    chosen = ("--frozen", "--no-dev", "--no-emit-workspace", "--package", KLM, "--all-extras")
    _run(BIN / "uv", "export", "--quiet", *chosen, "--output-file", required)
    _run(BIN / "uv", "pip", "install", "--quiet", *where, "--require-hashes", "--requirement", required)
    wheels = ("--no-index", "--no-deps", *sorted(DIST.glob("*.whl")))
    _run(BIN / "uv", "pip", "install", "--quiet", *where, *wheels)


def _say(line: str) -> None:
    sys.stdout.write(f"==> {line}\n")
    sys.stdout.flush()


def _run(*command: object, cwd: Path | None = None, env: Mapping[str, str] | None = None, quiet: bool = False) -> None:
    """Run a command; what a quiet one prints is seen only where it fails. Raises CalledProcessError."""
    given = list(map(str, command))
    done = subprocess.run(given, check=False, cwd=cwd, env=env, stdout=subprocess.PIPE if quiet else None, text=True)
    if done.returncode and quiet:
        sys.stdout.write(done.stdout)
    done.check_returncode()


if __name__ == "__main__":
    sys.exit(main())
