"""`klm module update`: the CRD becomes that of the class."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kube_crds import crd_of
from kube_runtime import load_yaml
from kyma_module_manager.project import commands
from kyma_module_manager.project.checks import notices
from kyma_module_manager.project.generation import generate_project
from kyma_module_manager.project.names import ModuleNames
from kyma_module_manager.project.reading import read_project

MODULE_CR = "src/mixer/module_cr.py"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    generate_project(ModuleNames.of("mixer"), tmp_path / "mixer", enable_module_config=True)
    yield tmp_path / "mixer"
    forget_package()


def forget_package() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "mixer"]:
        del sys.modules[name]


def update(project: Path, *arguments: str) -> tuple[int, str]:
    forget_package()
    environment = {"COLUMNS": "400", "NO_COLOR": "1"}
    result = CliRunner().invoke(commands.app, ["update", str(project), *arguments], env=environment)
    return result.exit_code, result.output


def contents(project: Path) -> dict[Path, str]:
    return {path: path.read_text() for path in project.rglob("*") if path.is_file() and path.suffix != ".pyc"}


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_new_project_is_current_and_its_crd_is_that_of_its_class(project: Path) -> None:
    before = contents(project)
    assert update(project, "--check")[0] == 0
    assert update(project) == (0, "✓ the CRD is that of the class\n")
    assert contents(project) == before
    manager = read_project(project).manager
    assert manager is not None
    assert load_yaml((project / "module/crd.yaml").read_text()) == crd_of(manager.crd)


def test_changed_class_becomes_the_crd(project: Path) -> None:
    edit(project / MODULE_CR, "Number of entries.", "How many entries there are.")
    edit(project / MODULE_CR, "maxLength=1024", "maxLength=2048")
    before = contents(project)
    forget_package()
    assert "module/crd.yaml is not that of the class Mixer: run kyma-module-manager module update" in notices(
        read_project(project)
    )
    code, printed = update(project, "--check")
    assert (code, contents(project)) == (1, before)
    assert "maxLength: 2048" in printed
    assert update(project)[0] == 0
    assert "How many entries there are." in (project / "module/crd.yaml").read_text()
    assert update(project, "--check")[0] == 0


@pytest.mark.parametrize("linked", ["module/crd.yaml", "module"])
def test_update_writes_through_no_link_of_the_project(project: Path, tmp_path: Path, linked: str) -> None:
    home = tmp_path / "home"
    edit(project / MODULE_CR, "Number of entries.", "How many entries there are.")
    (project / linked).rename(home)
    (project / linked).symlink_to(home)
    before = home.read_text() if home.is_file() else (home / "crd.yaml").read_text()
    code, printed = update(project)
    assert (code, f"{linked} is a symbolic link" in printed) == (2, True)
    assert before == (home.read_text() if home.is_file() else (home / "crd.yaml").read_text())


def test_crd_that_is_not_generated_is_kept(project: Path) -> None:
    crd = project / "module/crd.yaml"
    own = crd.read_text().partition("\n")[2].replace("Number of entries.", "How many entries there are.")
    crd.write_text(own)
    (notice,) = [each for each in notices(read_project(project)) if "crd.yaml" in each]
    assert notice.endswith("make Mixer a msgspec.Struct with the fields that the function reads")
    code, printed = update(project)
    assert (code, "crd.yaml is not generated" in printed, crd.read_text()) == (2, True, own)
    crd.unlink()
    assert update(project)[0] == 0
