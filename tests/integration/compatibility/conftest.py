"""The programs of the former version, built from its commit, and the fleet of the demo whose programs are exchanged."""

import asyncio
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import pytest_asyncio

from kyma_demo.environment import open_environment
from kyma_demo.programs import Programs
from kyma_demo.report import NoOutput
from kyma_demo.walkthrough import Walkthrough
from kyma_local.cache import cache_root, locked

FORMER = "5147c29a4f6250a7dbd2cd750d42f4edc544856f"
"""Stands for the previous release while there is none."""
UV = Path(sys.executable).with_name("uv")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run these tests in one event loop and one worker: they share the clusters."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
            item.add_marker(pytest.mark.xdist_group("compatibility"))


@dataclass(frozen=True)
class Former:
    """A venv with the wheels of the former version."""

    venv: Path

    def program(self, name: str) -> str:
        return str(self.venv / "bin" / name)


@pytest.fixture(scope="session")
def former() -> Former:
    shallow = subprocess.run(["git", "rev-parse", "--is-shallow-repository"], capture_output=True, check=False)
    if shallow.stdout.strip() != b"false":
        pytest.skip("the history is missing: a shallow clone, or no repository")
    archive = subprocess.run(["git", "archive", FORMER], capture_output=True, check=True).stdout
    venv = cache_root() / "former" / f"{FORMER[:12]}-python{sys.version_info[0]}.{sys.version_info[1]}"
    venv.parent.mkdir(parents=True, exist_ok=True)
    with locked(venv.with_suffix(".lock")):
        if not (venv / "complete").exists():
            shutil.rmtree(venv, ignore_errors=True)
            _install(archive, venv)
            (venv / "complete").touch()
    return Former(venv)


def _install(archive: bytes, venv: Path) -> None:
    """Build the wheels from an archive of the sources, and install them with the dependencies that these locked."""
    environment = {
        name: value for name, value in os.environ.items() if name not in {"VIRTUAL_ENV", "UV_PROJECT_ENVIRONMENT"}
    }
    with TemporaryDirectory(prefix="former-") as text:
        sources = Path(text)
        with tarfile.open(fileobj=BytesIO(archive)) as tar:
            tar.extractall(sources, filter="data")

        def uv(*arguments: object) -> None:
            command = [str(UV), "--quiet", *map(str, arguments)]
            subprocess.run(command, cwd=sources, env=environment, check=True)

        uv("build", "--all-packages", "--wheel", "--out-dir", sources / "wheels")
        uv("venv", "--python", sys.executable, venv)
        chosen = ("--frozen", "--no-dev", "--no-emit-workspace", "--all-packages")
        uv("export", *chosen, "--output-file", sources / "requirements.txt")
        python = ("--python", venv / "bin" / "python")
        uv("pip", "install", *python, "--require-hashes", "--requirement", sources / "requirements.txt")
        uv("pip", "install", *python, "--no-index", "--no-deps", *sorted((sources / "wheels").glob("*.whl")))


@dataclass(frozen=True, eq=False)
class Fleet:
    """The demo's control plane and cluster; each program runs in its present or its former version."""

    walkthrough: Walkthrough
    former: Former

    async def run_former(self, name: str) -> None:
        await self._run(name, self.former.program)

    async def run_present(self, name: str) -> None:
        await self._run(name, lambda program: str(Path(sys.executable).with_name(program)))

    async def _run(self, name: str, path_of: Callable[[str], str]) -> None:
        programs = self.walkthrough.programs
        program = programs.started[name]
        installed = path_of(Path(program.command[0]).name)
        await programs.start(replace(program, command=(installed, *program.command[1:])))


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def fleet(tmp_path_factory: pytest.TempPathFactory, former: Former) -> AsyncIterator[Fleet]:
    folder = tmp_path_factory.mktemp("environment")
    async with open_environment(folder, None, None) as environment, AsyncExitStack() as stack:
        walkthrough = Walkthrough(environment, Programs(environment, stack), NoOutput())
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(walkthrough.object_watcher.run())
            await walkthrough.set_up(timeout_seconds=180)
            await walkthrough.object_watcher.ready(60)
            yield Fleet(walkthrough, former)
            watching.cancel()
