"""The flag `--enableModuleConfig` of `klm module new` and `package`, and the notice about it in `validate`."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kube_runtime import load_yaml
from kyma_module_manager.project import commands
from kyma_module_manager.project.packing import PackedModule
from kyma_oci import Artifact, Login

NOTICE = "the manager's function is never called"


@pytest.fixture(autouse=True)
def path_of_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.fixture(autouse=True)
def packages() -> Iterator[None]:
    """Each test has a project of its own, all with one package name."""
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "mixer"]:
        del sys.modules[name]


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """No registry: the push returns at once."""

    async def push(artifact: Artifact, login: Login | None, packed: PackedModule) -> str:
        return "sha256:0"

    monkeypatch.setattr(commands, "_push", push)


def run(*arguments: str) -> str:
    result = CliRunner().invoke(commands.app, arguments, env={"COLUMNS": "400", "NO_COLOR": "1"})
    assert result.exit_code == 0, result.output
    return result.output


def enabled(template: Path) -> bool:
    document = load_yaml(template.read_text())
    return bool(document["spec"]["enableModuleConfig"])


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ((), False),
        (("--enableModuleConfig",), True),
        (("--enable-module-config",), True),
        (("--no-enable-module-config",), False),
    ],
)
def test_new_sets_enable_module_config_by_the_flag(tmp_path: Path, flags: tuple[str, ...], *, expected: bool) -> None:
    run("new", "mixer", "--dir", str(tmp_path / "mixer"), *flags)

    assert enabled(tmp_path / "mixer" / "module" / "module-template.yaml") is expected


@pytest.mark.parametrize(
    ("new_flags", "package_flags", "expected"),
    [
        ((), (), False),
        ((), ("--enableModuleConfig",), True),
        ((), ("--enable-module-config",), True),
        (("--enableModuleConfig",), (), True),
        (("--enableModuleConfig",), ("--no-enable-module-config",), False),
    ],
)
def test_package_replaces_the_projects_value_only_by_the_flag(
    tmp_path: Path, new_flags: tuple[str, ...], package_flags: tuple[str, ...], *, expected: bool
) -> None:
    project = tmp_path / "mixer"
    run("new", "mixer", "--dir", str(project), *new_flags)

    run("package", str(project), "--registry", "registry.example.com/modules", *package_flags)

    assert enabled(project / "dist" / "module-template.yaml") is expected
    assert enabled(project / "module" / "module-template.yaml") is bool(new_flags)


def test_validate_reports_what_a_missing_module_config_means_and_succeeds(tmp_path: Path) -> None:
    run("new", "mixer", "--dir", str(tmp_path / "mixer"))

    assert NOTICE in run("validate", str(tmp_path / "mixer"))


def test_validate_reports_nothing_about_a_module_with_module_config(tmp_path: Path) -> None:
    run("new", "mixer", "--dir", str(tmp_path / "mixer"), "--enableModuleConfig")

    assert NOTICE not in run("validate", str(tmp_path / "mixer"))
