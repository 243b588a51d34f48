"""All distributions and charts have one version, and require each other in it."""

import shutil
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tools.release import version

ROOT = Path(__file__).parents[3]


def test_distributions_require_each_other_in_their_version() -> None:
    bounds = Requirement(f"any{version.bounds_of(version.current())}").specifier
    projects = [tomllib.loads(each.read_text())["project"] for each in version.PROJECTS]
    ours = {each["name"] for each in projects}
    extras = (line for each in projects for extra in each.get("optional-dependencies", {}).values() for line in extra)
    required = [Requirement(line) for each in projects for line in each.get("dependencies", ())]
    required += [Requirement(line) for line in extras]
    assert {str(each) for each in required if each.name in ours and each.specifier != bounds} == set()
    assert len(projects) > 10


def test_readme_installs_its_distribution_from_the_built_wheels() -> None:
    for project in version.PROJECTS:
        name = tomllib.loads(project.read_text())["project"]["name"]
        for line in project.with_name("README.md").read_text().splitlines():
            if "pip install" in line:
                assert line.strip().startswith(f"make dist && pip install --find-links .local/dist {name}"), project


@pytest.mark.parametrize("project", ["libraries/kube_crds", "libraries/kube_runtime", "tools/kube_simulation"])
def test_libraries_for_any_resource_need_no_word_of_kyma(project: str) -> None:
    assert "kyma" not in (ROOT / project / "README.md").read_text().lower()
    assert "kyma" not in tomllib.loads((ROOT / project / "pyproject.toml").read_text())["project"]["name"]


@pytest.mark.parametrize(("tag", "status"), [("v{}", 0), ("{}", 1), ("v9.{}", 1)])
def test_tag_equals_the_version(tag: str, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["version", "--tag", tag.format(version.current())])
    assert version.main() == status


def test_new_version_is_set_everywhere_and_nothing_else_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in (*version.PROJECTS, *version.CHARTS):
        (tmp_path / path).parent.mkdir(parents=True)
        shutil.copy(ROOT / path, tmp_path / path)
    before = {path: (ROOT / path).read_text() for path in (*version.PROJECTS, *version.CHARTS)}
    monkeypatch.chdir(tmp_path)
    version.set_version("0.3.1")

    assert {*version.versions()} == {"0.3.1"}
    for path, text in before.items():
        changed = text.replace(">=0.1.0,<0.2", ">=0.3.1,<0.4").replace("0.1.0", "0.3.1")
        assert path.read_text() == changed, path
