"""Builds what is released into .local/dist: `python -m release.build [--check]`.

Wheels and sdists of all distributions, klm with all commands as one file (`klm.pyz`, for this Python and platform), the
charts, and the checksums of all of them. With `--check` the wheels are installed into an empty venv, without the source
tree and without a package index, and the demo of a rollout is run from there.
"""

import argparse
import hashlib
import shutil
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from kyma_local.helm import find_helm
from release.version import CHARTS, current

DIST = Path(".local/dist")
BIN = Path(sys.executable).parent
KLM = "kyma-lifecycle-manager"
INTERPRETER = "/usr/bin/env python3"


def main() -> int:
    """Build, and check what was built."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="install it and run it")
    options = parser.parse_args()
    began = time.monotonic()
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir(parents=True)
    with TemporaryDirectory(prefix="release-") as text:
        folder = Path(text)
        build_distributions()
        build_zipapp(folder)
        build_charts()
        write_checksums()
        built = len(list(DIST.iterdir()))
        _say(f"{built} files of version {current()} in {DIST}, {time.monotonic() - began:.0f} s")
        if options.check:
            check(folder)
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
    site = folder / "site"
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


def build_charts() -> None:
    _say("charts")
    version = current()
    for chart in CHARTS:
        given = ("--version", version, "--app-version", version, "--destination", DIST)
        _run(find_helm(), "package", chart.parent, *given)


def write_checksums() -> None:
    """Write SHA256SUMS, as `sha256sum --check` reads it."""
    files = sorted(each for each in DIST.iterdir() if each.is_file())
    lines = [f"{hashlib.sha256(each.read_bytes()).hexdigest()}  {each.name}\n" for each in files]
    (DIST / "SHA256SUMS").write_text("".join(lines))


def check(folder: Path) -> None:
    """Run klm from an empty venv, and as one file. Raises CalledProcessError."""
    _say("installing the wheels into an empty venv")
    venv, empty = folder / "venv", folder / "empty"
    empty.mkdir()
    _run(BIN / "uv", "venv", "--quiet", "--python", sys.executable, venv)
    _install(folder, "--python", venv / "bin" / "python")
    environment = {"PATH": f"{venv / 'bin'}:/usr/bin:/bin", "HOME": str(empty), "SHIV_ROOT": str(empty)}
    for klm in ((venv / "bin" / "klm",), (venv / "bin" / "python", DIST.resolve() / "klm.pyz")):
        _run(*klm, "--version", cwd=empty, env=environment)
        _run(*klm, "module", "--help", cwd=empty, env=environment, stdout=subprocess.DEVNULL)
    _say("a rollout on simulated clusters")
    demo = (venv / "bin" / "klm", "demo", "--rollout", "--clusters", "20", "--json", "--once")
    _run(*demo, cwd=empty, env=environment, stdout=subprocess.DEVNULL)


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


def _run(*command: object, **options: object) -> None:
    subprocess.run(list(map(str, command)), check=True, **options)  # type: ignore[call-overload]


if __name__ == "__main__":
    sys.exit(main())
