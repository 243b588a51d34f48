"""What a project has or can't write is reported in a line, and not by a traceback."""

from pathlib import Path

import pytest

from kyma_module_manager.exceptions import DeclarationError
from kyma_module_manager.project.modulectl.config import read_config
from kyma_module_manager.project.reading import read_project
from tests.unit.module_manager.command_line import klm

CRD = "---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: odd}\n"


SPEC = "spec: {group: g, names: {kind: K, plural: ks}, scope: Namespaced, versions: {a: b}}\n"


@pytest.mark.parametrize("spec", ["", SPEC])
def test_broken_crd_of_a_manifest_is_named(harbour: Path, spec: str) -> None:
    config = harbour / "module-config.yaml"
    with (harbour / read_config(config).manifest).open("a") as file:
        file.write("\n" + CRD + spec)
    assert "CustomResourceDefinition odd" in klm("validate", config, status=2)


def test_template_that_can_not_be_written_is_named(harbour: Path) -> None:
    (harbour / "file").write_text("")
    printed = klm(
        "create", "--config-file", harbour / "module-config.yaml", "--module-sources-git-directory", harbour,
        "--output", harbour / "file" / "template.yaml", "--output-constructor-file", harbour / "constructor.yaml",
        status=1,
    )  # fmt: skip
    assert "can't be written" in printed


@pytest.mark.parametrize("text", ["tool = 3", "[tool]\nkyma-module = 3"])
def test_settings_of_another_shape_name_no_manager(tmp_path: Path, text: str) -> None:
    (tmp_path / "module").mkdir()
    (tmp_path / "pyproject.toml").write_text(text)
    assert read_project(tmp_path).manager is None


def test_manager_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "module").mkdir()
    (tmp_path / "pyproject.toml").write_text("[tool.kyma-module]\nmanager = ['a:b']")
    with pytest.raises(DeclarationError, match=r"tool\.kyma-module\.manager"):
        read_project(tmp_path)


def test_new_project_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "--dir" in klm("new", "greeting", "--dir", tmp_path / "file" / "greeting", status=2)
