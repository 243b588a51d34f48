"""The flag `--enableModuleConfig` of `klm module new` and `package`, and the notice about it in `validate`."""

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from typer.testing import CliRunner

from kube_runtime import dump_yaml, load_yaml
from kyma_module_manager.project import commands, running
from kyma_module_manager.project.packing import PackedModule
from kyma_oci import Artifact, Login
from kyma_oci.signatures import keys_in, signed_component, verify

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

    monkeypatch.setattr(running, "_push", push)


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


@pytest.fixture
def project(tmp_path: Path) -> Path:
    run("new", "mixer", "--dir", str(tmp_path / "mixer"))
    return tmp_path / "mixer"


def refusal(*arguments: str) -> str:
    result = CliRunner().invoke(commands.app, arguments, env={"COLUMNS": "400", "NO_COLOR": "1"})
    assert result.exit_code != 0
    assert isinstance(result.exception, SystemExit), result.exception
    return result.output


@pytest.mark.parametrize("given", [False, True])
def test_package_writes_through_no_link_and_over_no_device(project: Path, tmp_path: Path, *, given: bool) -> None:
    somebodys = tmp_path / "authorized_keys"
    somebodys.write_text("mine")
    target = project / "dist" / "module-template.yaml"
    target.parent.mkdir()
    arguments = ("package", str(project), "--registry", "127.0.0.1:5000", *(("--output", str(target)) if given else ()))

    target.symlink_to(somebodys)
    assert "is a symbolic link" in refusal(*arguments)
    target.unlink()
    os.mkfifo(target)
    assert "not a regular file" in refusal(*arguments)
    target.unlink()

    run(*arguments)
    assert somebodys.read_text() == "mine"
    assert load_yaml(target.read_text())["kind"] == "ModuleTemplate"


def test_package_writes_to_no_folder_that_a_link_leads_to(project: Path, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (project / "dist").symlink_to(tmp_path / "home")

    assert "is a symbolic link" in refusal("package", str(project), "--registry", "127.0.0.1:5000")
    assert list((tmp_path / "home").iterdir()) == []


@pytest.mark.parametrize("command", [("validate",), ("package", "--registry", "127.0.0.1:5000")])
@pytest.mark.parametrize("name", ["module/extra.yaml", "pyproject.toml"])
def test_what_is_no_regular_file_is_refused_at_once(project: Path, command: tuple[str, ...], name: str) -> None:
    path = project / name
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    assert "not a regular file" in refusal(*command, str(project))
    path.unlink()
    path.symlink_to("/dev/zero")
    assert "not a regular file" in refusal(*command, str(project))
    path.unlink()
    path.mkdir()
    assert "can't be read" in refusal(*command, str(project))


@pytest.mark.parametrize("content", [b"\xff\xfe", b"kind: \x1b]0;owned\x07", b"- [/red]\n"])
def test_file_of_any_content_is_one_line_of_an_error(project: Path, content: bytes) -> None:
    (project / "module" / "extra.yaml").write_bytes(content)

    refused = refusal("package", str(project), "--registry", "127.0.0.1:5000")

    assert "extra.yaml" in refused
    assert "\x1b" not in refused


@pytest.mark.parametrize("version", ["../../v2/other/manifests/1.0.0", "1.0.0?x=", "1.0.0#", "..", "", "1" * 129])
def test_version_that_is_no_tag_is_refused(project: Path, version: str) -> None:
    template = project / "module" / "module-template.yaml"
    document = load_yaml(template.read_text())
    document["spec"]["descriptor"]["component"]["version"] = version
    template.write_text(dump_yaml(document))

    assert "invalid tag" in refusal("package", str(project), "--registry", "127.0.0.1:5000")


def test_package_signs_the_descriptor_that_it_writes(project: Path, tmp_path: Path) -> None:
    key, file = generate_private_key(65537, 2048), tmp_path / "key.pem"
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))

    run("package", str(project), "--registry", "127.0.0.1:5000", "--sign", str(file))

    template = load_yaml((project / "dist" / "module-template.yaml").read_text())
    descriptor = msgspec.json.encode(template["spec"]["descriptor"])
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    verify(descriptor, keys_in({"key.pub": public}), datetime.now(UTC))
    assert signed_component(descriptor).layers


@pytest.mark.parametrize("content", [b"", b"\xff", None])
def test_package_with_a_key_that_is_none_pushes_nothing(project: Path, tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "key.pem").write_bytes(content)

    refused = refusal("package", str(project), "--registry", "127.0.0.1:5000", "--sign", str(tmp_path / "key.pem"))

    assert "key.pem" in refused
    assert not (project / "dist").exists()


def test_package_lists_what_it_holds_and_what_is_for_others(project: Path) -> None:
    printed = run("package", str(project), "--registry", "127.0.0.1:5000")

    assert "1 objects: 1 CustomResourceDefinition" in printed
    assert "not in the package: module/skr-role.yaml: ClusterRole lifecycle-manager-mixer: the rights of" in printed


def test_package_from_which_something_would_be_missing_is_not_pushed(project: Path) -> None:
    (project / "module" / "base").mkdir()

    refused = refusal("package", str(project), "--registry", "127.0.0.1:5000")

    assert "module/base: folders are not read" in refused
    assert "nothing was pushed" in refused
    assert not (project / "dist").exists()


@pytest.mark.parametrize("program", ["klm", "kyma-module-manager"])
def test_next_command_of_a_new_module_is_called_as_this_one(tmp_path: Path, program: str) -> None:
    command: list[str | Path] = [Path(sys.executable).with_name(program), "module", "new", "mixer", "--dir", "made"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert f"Next: cd made and {program} module validate" in " ".join(done.stdout.split())


def test_kubeconfigs_of_the_environment_are_found_as_kubectl_finds_them(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[object] = []

    def run_manager(_target: str, kubeconfig: Path | None, *_: object, **_more: object) -> int:
        given.append(kubeconfig)
        return 0

    monkeypatch.setattr("kyma_module_manager.running.run_manager", run_manager)
    monkeypatch.setattr("kyma_diagnostics.logs.configure_logs", lambda _level: None)
    result = CliRunner().invoke(commands.app, ["run", "mixer:objects"], env={"KUBECONFIG": "/one:/two"})
    assert (result.exit_code, given) == (0, [None])  # without a path, the client reads both


@pytest.mark.parametrize("address", ["https://127.0.0.1:5000/modules", "oci://127.0.0.1:5000/modules"])
def test_registry_may_have_a_scheme(address: str, project: Path) -> None:
    output = run("package", str(project), "--registry", address)
    assert "✓ 127.0.0.1:5000/modules/component-descriptors/" in output


def test_path_of_a_registry_that_has_capitals_is_named(project: Path) -> None:
    output = refusal("package", str(project), "--registry", "ghcr.io/Owner")
    assert "'Owner/component-descriptors/kyma-project.io/module/mixer' is not a repository: expected" in output


def test_terminal_that_lacks_the_signs_shows_the_rest(project: Path) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    command = [str(Path(sys.executable).with_name("kyma-module-manager")), "module", "validate", str(project)]
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"? everything in the folder module is read")
