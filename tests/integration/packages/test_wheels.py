"""Every distribution by itself: built as a wheel, installed alone into a venv, and used.

The venv first gets exactly the third-party packages that the lock names for the distribution, from uv's cache. Then the
wheels are installed without a package index: a dependency that a wheel declares and the lock lacks fails there, an
undeclared one fails at its import. All tests have one venv, because to compile packages takes longer than these tests.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest

from kube_runtime.cli import main as kube_runtime
from kyma_module_manager.project.generation import generate_project
from kyma_module_manager.project.names import ModuleNames
from tools.release.version import PROJECTS

UV = Path(sys.executable).with_name("uv")
API_README = Path("libraries/api/README.md")
VERSION = "0.1.0"
IMPORT_ALL = """
import importlib, pkgutil, sys
package = importlib.import_module(sys.argv[1])
for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
    if not module.name.startswith(tuple(sys.argv[2:])) and not module.name.endswith(".__main__"):
        importlib.import_module(module.name)
"""


@dataclass(frozen=True)
class Environment:
    """A venv with one distribution, or some, and what they require."""

    folder: Path

    def run(self, program: str, *arguments: object, status: int = 0, cwd: Path | None = None) -> str:
        """Run a program of the venv, isolated from this one; return what it prints."""
        command = [str(self.folder / "bin" / program), *map(str, arguments)]
        environment = {"PATH": str(self.folder / "bin"), "COLUMNS": "200", "HOME": str(self.folder)}
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=cwd or self.folder, env=environment, timeout=120
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    def imports(self, package: str, *, but: tuple[str, ...] = ()) -> None:
        """Import every module of a package, with the exception of some."""
        self.run("python", "-I", "-c", IMPORT_ALL, package, *but)

    def distributions(self) -> set[str]:
        listed = _uv("pip", "list", "--format", "freeze", "--python", self.folder / "bin" / "python")
        return {line.partition("==")[0] for line in listed.splitlines()}


class Install(Protocol):
    def __call__(self, *distributions: str) -> Environment:
        """Install distributions, each a name that extras in brackets may follow, and nothing else."""


@pytest.fixture(scope="module")
def install(tmp_path_factory: pytest.TempPathFactory, wheels: Path) -> Install:
    folder = tmp_path_factory.mktemp("packages") / "venv"
    python = ("--python", folder / "bin" / "python")
    ours = [tomllib.loads(file.read_text())["project"]["name"] for file in PROJECTS]

    def installed(*distributions: str) -> Environment:
        asked = [re.fullmatch(r"([a-z-]+)(?:\[([a-z,]+)\])?", each) for each in distributions]
        chosen = [option for found in asked if found for option in ("--package", found[1])]
        extras = [extra for found in asked if found and found[2] for extra in found[2].split(",")]
        chosen += [option for extra in extras for option in ("--extra", extra)]
        if folder.exists():
            _uv("pip", "uninstall", *python, *ours)
        _uv("sync", "--frozen", "--no-dev", "--no-install-workspace", *chosen, "--python", sys.executable, venv=folder)
        _uv("pip", "install", "--no-cache", "--no-index", "--find-links", wheels, *python, *distributions)
        return Environment(folder)

    return installed


def test_every_wheel_has_types_a_licence_a_description_and_links(wheels: Path) -> None:
    found = sorted(wheels.glob("*.whl"))
    assert len(found) == len(PROJECTS)
    for path in found:
        with zipfile.ZipFile(path) as wheel:
            names = wheel.namelist()
            metadata = wheel.read(next(name for name in names if name.endswith(".dist-info/METADATA"))).decode()
        assert [name for name in names if re.fullmatch(r"\w+/py\.typed", name)], path.name
        assert [name for name in names if name.endswith(".dist-info/licenses/LICENSE")], path.name
        for field in ("License-Expression: Apache-2.0", "Project-URL: ", "Classifier: ", "Description-Content-Type: "):
            assert f"\n{field}" in metadata, (path.name, field)


def test_api_brings_kube_crds_and_msgspec_alone_and_its_readme_works(install: Install) -> None:
    api = install("kyma-lifecycle-manager-api")

    assert api.distributions() == {"kube-crds", "kyma-lifecycle-manager-api", "msgspec"}
    example, printed = re.findall(r"```(?:python|console)\n(.*?)```", API_README.read_text(), re.DOTALL)[:2]
    assert api.run("python", "-I", "-c", example) == printed
    count = "from lifecycle_manager_api.crds import all_crds; print(len(list(all_crds())))"
    assert api.run("python", "-I", "-c", count) == "10\n"


@pytest.mark.parametrize(
    ("distribution", "package"),
    [
        ("kyma-certs", "kyma_certs"),
        ("kyma-diagnostics[logs,tracing]", "kyma_diagnostics"),
        ("kyma-http-guard", "http_guard"),
        ("kube-crds", "kube_crds"),
        ("kube-runtime", "kube_runtime"),
        ("kube-simulation", "kube_simulation"),
        ("kyma-oci", "kyma_oci"),
    ],
)
def test_libraries_can_be_imported(install: Install, distribution: str, package: str) -> None:
    install(distribution).imports(package, but=(f"{package}.pytest_plugin",))


def test_watcher_says_which_setting_is_missing(install: Install) -> None:
    watcher = install("kyma-skr-watcher")

    watcher.imports("skr_watcher")
    assert watcher.run("skr-watcher", status=1).startswith("skr-watcher: KCP_ADDR: not set")


def test_klm_of_the_lifecycle_manager_alone_runs_it_and_has_no_command_of_others(install: Install) -> None:
    manager = install("kyma-lifecycle-manager")

    manager.imports("lifecycle_manager")
    assert manager.run("klm", "--version") == f"klm {VERSION}\n"
    listed = manager.run("klm", "run", "--help")
    assert "--kyma-skr-listener-bind-address" in listed
    assert "--kyma-selector" not in listed
    assert "No such command 'local'" in manager.run("klm", "local", status=2)


def test_module_manager_runs_and_needs_no_local_clusters(install: Install) -> None:
    manager = install("kyma-module-manager")

    manager.imports("kyma_module_manager", but=("kyma_module_manager.testing.plugin",))
    assert "Usage: kyma-module-manager" in manager.run("kyma-module-manager", "--help")
    assert not manager.distributions() & {"kyma-local-clusters", "kyma-lifecycle-manager", "pytest"}


def test_test_kit_of_the_sdk_is_a_pytest_plugin(tmp_path: Path, install: Install) -> None:
    kit = install("kyma-module-manager[testing]")
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["kyma_module_manager.testing.plugin"]\n')

    kit.imports("kyma_module_manager")
    fixtures = kit.run("python", "-m", "pytest", "--fixtures", tmp_path, cwd=tmp_path)
    assert re.search(r"^control_plane\b", fixtures, re.MULTILINE)
    assert re.search(r"^managed\b", fixtures, re.MULTILINE)


def test_local_clusters_add_a_command_to_klm_and_work_without_it(install: Install) -> None:
    local = install("kyma-local-clusters")
    local.imports("kyma_local", but=("kyma_local.pytest_plugin",))
    assert "binaries" in local.run("python", "-m", "kyma_local", "--help")

    both = install("kyma-local-clusters", "kyma-lifecycle-manager")
    assert "binaries" in both.run("klm", "local", "--help")


def test_fleet_adds_its_commands_to_klm_and_is_a_plugin_of_kubectl(install: Install) -> None:
    fleet = install("kyma-fleet")

    fleet.imports("kyma_fleet")
    assert "--region" in fleet.run("klm", "get", "--help")
    assert fleet.run("kubectl-klm", "--version") == f"klm {VERSION}\n"
    assert not fleet.distributions() & {"kyma-local-clusters", "kyma-module-manager"}


def test_fleet_page_is_found_by_the_service_that_it_is_installed_beside(install: Install) -> None:
    page = install("kyma-fleet-page")

    page.imports("kyma_fleet_page")
    found = "from importlib.metadata import entry_points; print(*entry_points(group='lifecycle_manager.pages'))"
    assert "kyma_fleet_page.serving:setup" in page.run("python", "-I", "-c", found)


def test_takeover_adds_a_command_to_klm_and_an_option_to_the_service(install: Install) -> None:
    takeover = install("kyma-takeover")

    takeover.imports("kyma_takeover")
    assert "--where-possible" in takeover.run("klm", "adopt", "--help")
    assert "--kyma-selector" in takeover.run("klm", "run", "--help")


def test_demo_brings_all_of_klm(install: Install) -> None:
    demo = install("kyma-lifecycle-manager-demo")

    demo.imports("kyma_demo")
    assert "--once" in demo.run("klm", "demo", "--help")
    assert {"demo", "get", "local", "module", "run"} <= set(demo.run("klm", "--help").split())


def test_new_module_project_is_locked_and_installed_as_its_dockerfile_does(tmp_path: Path, wheels: Path) -> None:
    project = tmp_path / "tea-room"
    generate_project(ModuleNames.of("tea-room"), project, enable_module_config=True)
    for wheel in wheels.glob("*.whl"):
        shutil.copy(wheel, project / "wheels")
    _uv("lock", "--refresh", cwd=project)
    (installs,) = re.findall(r"^RUN uv (sync .+)$", (project / "Dockerfile").read_text(), re.MULTILINE)
    _uv(*installs.split(), "--python", sys.executable, cwd=project, venv=project / ".venv")

    manager = Environment(project / ".venv")
    manager.run("python", "-I", "-c", "import tea_room.manager")
    assert "Usage: kyma-module-manager" in manager.run("kyma-module-manager", "--help")


def test_new_operator_project_is_locked_installed_as_its_dockerfile_does_and_tested(
    tmp_path: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert kube_runtime(["new", "web-pages"]) == 0
    project = tmp_path / "web-pages"
    for wheel in wheels.glob("*.whl"):
        shutil.copy(wheel, project / "wheels")
    _uv("lock", "--refresh", cwd=project)
    (installs,) = re.findall(r"^RUN uv (sync .+)$", (project / "Dockerfile").read_text(), re.MULTILINE)
    _uv(*installs.split(), "--python", sys.executable, cwd=project, venv=project / ".venv")
    operator = Environment(project / ".venv")
    assert "kind: CustomResourceDefinition" in operator.run(
        "kube-runtime", "crds", str(project / "web_pages_operator.py")
    )
    assert "pytest" not in operator.distributions()

    _uv("sync", "--locked", "--python", sys.executable, cwd=project, venv=project / ".venv")
    assert " passed" in operator.run("pytest", "-q", "--rootdir", str(project), str(project))


def _uv(*arguments: object, venv: Path | None = None, cwd: Path | None = None) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    environment |= {"UV_PROJECT_ENVIRONMENT": str(venv)} if venv is not None else {}
    command = [str(UV), "--quiet", *map(str, arguments)]
    if arguments[:2] == ("pip", "list"):
        command.remove("--quiet")
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=cwd, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout
