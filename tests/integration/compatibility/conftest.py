"""The former version, built from its commit, and clusters in which each part runs in its former or present version."""

import asyncio
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import pytest_asyncio

from kube_runtime import Invalid, ServerUnavailable
from kyma_local.cache import cache_root, locked
from kyma_local.helm import find_helm
from lifecycle_manager.process.crd_installation import apply_objects, crds_as_yaml
from tests.integration.charts.clusters import SAMPLE, HelmClusters, open_world
from tests.integration.charts.helm import CHARTS, LIFECYCLE_MANAGER, MODULE_MANAGER, Helm
from tests.node_agent.containers import PROGRAMS
from tests.waiting import eventually
from tools.images.within import unpack
from tools.release.version import current

FORMER = "5147c29a4f6250a7dbd2cd750d42f4edc544856f"
"""Stands for the previous release while there is none."""
FORMER_VERSION = "0.0.1"
UV = PROGRAMS / "uv"


def pytest_itemcollected(item: pytest.Item) -> None:
    """Run these tests in one event loop and one worker: they share the clusters."""
    item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
    item.add_marker(pytest.mark.xdist_group("compatibility"))


@dataclass(frozen=True)
class Version:
    """A version: its folder of programs, its charts, its CRDs, and the module of the demo."""

    name: str
    programs: Path
    charts: Path
    crds: str
    sample: Path

    @property
    def klm(self) -> Path:
        return self.programs / "klm"


PRESENT = Version(current(), PROGRAMS, CHARTS, crds_as_yaml(), Path(str(SAMPLE)))


@pytest.fixture(scope="session")
def former() -> Version:
    shallow = subprocess.run(["git", "rev-parse", "--is-shallow-repository"], capture_output=True, check=False)
    if shallow.stdout.strip() != b"false":
        pytest.skip("the history is missing: a shallow clone, or no repository")
    venv = cache_root() / "former" / f"{FORMER[:12]}-python{sys.version_info[0]}.{sys.version_info[1]}"
    venv.parent.mkdir(parents=True, exist_ok=True)
    with locked(venv.with_suffix(".lock")):
        if not (venv / "complete").exists() or not (venv / "charts").exists():
            shutil.rmtree(venv, ignore_errors=True)
            _install(venv)
            (venv / "complete").touch()
    crds = sorted((venv / "charts" / LIFECYCLE_MANAGER.name / "files" / "crds").iterdir())
    (package,) = venv.glob("lib/*/site-packages/kyma_module_manager")
    return Version(
        FORMER_VERSION,
        venv / "bin",
        venv / "charts",
        "\n---\n".join(file.read_text() for file in crds),
        package / "samples" / "cloud_resources",
    )


def _install(venv: Path) -> None:
    """Build wheels and charts from the sources of the commit, and install the wheels with their locked dependencies."""
    environment = {
        name: value for name, value in os.environ.items() if name not in {"VIRTUAL_ENV", "UV_PROJECT_ENVIRONMENT"}
    }
    with TemporaryDirectory(prefix="former-") as text:
        sources = Path(text) / "sources"
        subprocess.run(["git", "archive", f"--output={text}/sources.tar", FORMER], check=True)
        unpack(Path(text) / "sources.tar", sources)

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
        for chart in (sources / "charts").glob("*/Chart.yaml"):
            versions = re.compile(r"^(version|appVersion): .+$", re.MULTILINE)
            chart.write_text(versions.sub(rf"\1: {FORMER_VERSION}", chart.read_text()))
        shutil.copytree(sources / "charts", venv / "charts")


@dataclass(frozen=True, eq=False)
class Fleet:
    """Clusters with everything in its former version at first."""

    world: HelmClusters
    former: Version

    async def install_lifecycle_manager(self, version: Version, *arguments: str, command: str = "upgrade") -> None:
        """Install the chart of Lifecycle Manager, and wait until only Pods of this version run, with its Watcher."""
        chart = version.charts / LIFECYCLE_MANAGER.name
        await self.world.install_lifecycle_manager("--set=replicas=1", *arguments, command=command, chart=chart)

    async def install_module_manager(self, version: Version, *, command: str = "upgrade") -> None:
        chart = version.charts / MODULE_MANAGER.name
        await self.world.install_module_manager("--set=replicas=1", command=command, chart=chart)

    async def run(
        self, *, lifecycle_manager: Version, crds: Version, watcher: Version, module_manager: Version
    ) -> None:
        """Have each part run in a version. The entry in the catalog is that of the CRDs' version."""
        await apply_objects(self.world.kcp, crds.crds)
        await eventually(partial(self._is_offered, crds.sample), what="the module is offered")
        image = f"--set=watcher.image=skr-watcher:{watcher.name}"
        await self.install_lifecycle_manager(lifecycle_manager, "--set=crds.install=false", "--force-conflicts", image)
        await self.install_module_manager(module_manager)
        await self.wait_for(lifecycle_manager, watcher, module_manager)

    async def _is_offered(self, sample: Path) -> bool:
        """Offer the module; the API server accepts fields of a changed CRD only some time after the CRD."""
        try:
            await self.world.offer_the_module(sample)
        except (Invalid, ServerUnavailable):
            return False
        return True

    async def wait_for(self, lifecycle_manager: Version, watcher: Version, module_manager: Version) -> None:
        """Wait until only Pods of these versions run, and all are ready."""
        for what, version in (
            ("lifecycle-manager", lifecycle_manager),
            ("module-manager", module_manager),
            ("skr-watcher", watcher),
        ):
            await eventually(partial(self._is_running, what, version), what=f"{what} {version.name}")

    def _is_running(self, image: str, version: Version) -> bool:
        found = [
            (reference, run.ready)
            for run in (*self.world.kcp_node.runs, *self.world.skr_node.runs)
            if (reference := run.pod["spec"]["containers"][0]["image"]).partition(":")[0] == image
        ]
        return {*found} == {(f"{image}:{version.name}", True)}


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def fleet(tmp_path_factory: pytest.TempPathFactory, former: Version) -> AsyncIterator[Fleet]:
    helm = Helm(await asyncio.to_thread(find_helm), tmp_path_factory.mktemp("helm"))
    async with open_world(tmp_path_factory.mktemp("world"), helm, {FORMER_VERSION: former.programs}) as world:
        fleet = Fleet(world, former)
        await fleet.install_lifecycle_manager(former, command="install")
        await world.offer_the_module(former.sample)
        await fleet.install_module_manager(former, command="install")
        await world.manage_the_user_cluster()
        yield fleet
