"""The commands `klm module …` on a project: what they write, print and refuse."""

import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from typer.testing import CliRunner

from kube_crds import crd_of
from kube_runtime import dump_yaml, load_yaml
from kyma_module_manager.project import commands, running
from kyma_module_manager.project.checks import notices
from kyma_module_manager.project.packing import PackedModule
from kyma_module_manager.project.reading import read_project
from kyma_oci import Artifact, Login
from kyma_oci.signatures.content import signed_component
from kyma_oci.signatures.descriptors import verify
from kyma_oci.signatures.keys import keys_in
from tests.unit.module_manager.command_line import edit, klm
from tests.unit.module_manager.conftest import forget_mixer

MODULE_CR = "src/mixer/module_cr.py"
NOTICE = "the manager's function is never called"


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """No registry: the push returns at once."""

    async def push(artifact: Artifact, login: Login | None, packed: PackedModule) -> str:
        return "sha256:0"

    monkeypatch.setattr(running, "_push", push)


def enabled(template: Path) -> bool:
    document = load_yaml(template.read_text())
    return bool(document["spec"]["enableModuleConfig"])


@pytest.mark.parametrize(
    ("new_flags", "package_flags", "made", "packed"),
    [
        ((), (), False, False),
        ((), ("--enableModuleConfig",), False, True),
        (("--no-enable-module-config",), ("--enable-module-config",), False, True),
        (("--enableModuleConfig",), (), True, True),
        (("--enable-module-config",), ("--no-enable-module-config",), True, False),
    ],
)
def test_module_config_is_enabled_by_new_unless_package_says_otherwise(
    mixer: Path, new_flags: tuple[str, ...], package_flags: tuple[str, ...], *, made: bool, packed: bool
) -> None:
    shutil.rmtree(mixer)
    klm("new", "mixer", "--dir", mixer, *new_flags)
    assert (NOTICE in klm("validate", mixer)) is not made

    klm("package", mixer, "--registry", "registry.example.com/modules", *package_flags)

    assert enabled(mixer / "module" / "module-template.yaml") is made
    assert enabled(mixer / "dist" / "module-template.yaml") is packed


@pytest.mark.parametrize("given", [False, True])
def test_package_writes_through_no_link_and_over_no_device(mixer: Path, tmp_path: Path, *, given: bool) -> None:
    somebodys = tmp_path / "authorized_keys"
    somebodys.write_text("mine")
    target = mixer / "dist" / "module-template.yaml"
    target.parent.mkdir()
    arguments = ("package", mixer, "--registry", "127.0.0.1:5000", *(("--output", str(target)) if given else ()))

    target.symlink_to(somebodys)
    assert "is a symbolic link" in klm(*arguments, status=None)
    target.unlink()
    os.mkfifo(target)
    assert "not a regular file" in klm(*arguments, status=None)
    target.unlink()

    klm(*arguments)
    assert somebodys.read_text() == "mine"
    assert load_yaml(target.read_text())["kind"] == "ModuleTemplate"


def test_package_writes_to_no_folder_that_a_link_leads_to(mixer: Path, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (mixer / "dist").symlink_to(tmp_path / "home")

    assert "is a symbolic link" in klm("package", mixer, "--registry", "127.0.0.1:5000", status=None)
    assert list((tmp_path / "home").iterdir()) == []


@pytest.mark.parametrize("command", [("validate",), ("package", "--registry", "127.0.0.1:5000")])
@pytest.mark.parametrize("name", ["module/extra.yaml", "pyproject.toml"])
def test_what_is_no_regular_file_is_refused_at_once(mixer: Path, command: tuple[str, ...], name: str) -> None:
    path = mixer / name
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    assert "not a regular file" in klm(*command, mixer, status=None)
    path.unlink()
    path.symlink_to("/dev/zero")
    assert "not a regular file" in klm(*command, mixer, status=None)
    path.unlink()
    path.mkdir()
    assert "can't be read" in klm(*command, mixer, status=None)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"kind: \x1b]0;owned\x07", b"- [/red]\n"])
def test_file_of_any_content_is_one_line_of_an_error(mixer: Path, content: bytes) -> None:
    (mixer / "module" / "extra.yaml").write_bytes(content)

    refused = klm("package", mixer, "--registry", "127.0.0.1:5000", status=None)

    assert "extra.yaml" in refused
    assert "\x1b" not in refused


@pytest.mark.parametrize("version", ["../../v2/other/manifests/1.0.0", "1.0.0?x=", "1.0.0#", "..", "", "1" * 129])
def test_version_that_is_no_tag_is_refused(mixer: Path, version: str) -> None:
    template = mixer / "module" / "module-template.yaml"
    document = load_yaml(template.read_text())
    document["spec"]["descriptor"]["component"]["version"] = version
    template.write_text(dump_yaml(document))

    assert "invalid tag" in klm("package", mixer, "--registry", "127.0.0.1:5000", status=None)


def test_package_signs_the_descriptor_that_it_writes(mixer: Path, tmp_path: Path) -> None:
    key, file = generate_private_key(65537, 2048), tmp_path / "key.pem"
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))

    klm("package", mixer, "--registry", "127.0.0.1:5000", "--sign", str(file))

    template = load_yaml((mixer / "dist" / "module-template.yaml").read_text())
    descriptor = msgspec.json.encode(template["spec"]["descriptor"])
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    verify(descriptor, keys_in({"key.pub": public}), datetime.now(UTC))
    assert signed_component(descriptor).layers


@pytest.mark.parametrize("content", [b"", b"\xff", None])
def test_package_with_a_key_that_is_none_pushes_nothing(mixer: Path, tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "key.pem").write_bytes(content)

    refused = klm("package", mixer, "--registry", "127.0.0.1:5000", "--sign", tmp_path / "key.pem", status=None)

    assert "key.pem" in refused
    assert not (mixer / "dist").exists()


def test_package_lists_what_it_holds_and_what_is_for_others(mixer: Path) -> None:
    printed = klm("package", mixer, "--registry", "127.0.0.1:5000")

    assert "1 objects: 1 CustomResourceDefinition" in printed
    assert "not in the package: module/skr-role.yaml: ClusterRole lifecycle-manager-mixer: the rights of" in printed


def test_package_from_which_something_would_be_missing_is_not_pushed(mixer: Path) -> None:
    (mixer / "module" / "base").mkdir()

    refused = klm("package", mixer, "--registry", "127.0.0.1:5000", status=None)

    assert "module/base: folders are not read" in refused
    assert "nothing was pushed" in refused
    assert not (mixer / "dist").exists()


@pytest.mark.parametrize("program", ["klm", "kyma-module-manager"])
def test_next_command_of_a_new_module_is_called_as_this_one(tmp_path: Path, program: str) -> None:
    command: list[str | Path] = [Path(sys.executable).with_name(program), "module", "new", "mixer", "--dir", "made"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert f"Next: cd made and {program} module validate" in " ".join(done.stdout.split())
    readme = (tmp_path / "made" / "README.md").read_text()
    assert f"    {program} module package --registry" in readme
    assert ("kyma-module-manager module" in readme) is (program == "kyma-module-manager")


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
def test_registry_may_have_a_scheme(address: str, mixer: Path) -> None:
    output = klm("package", mixer, "--registry", address)
    assert "✓ 127.0.0.1:5000/modules/component-descriptors/" in output


def test_path_of_a_registry_that_has_capitals_is_named(mixer: Path) -> None:
    output = klm("package", mixer, "--registry", "ghcr.io/Owner", status=None)
    assert "'Owner/component-descriptors/kyma-project.io/module/mixer' is not a repository: expected" in output


def test_terminal_that_lacks_the_signs_shows_the_rest(mixer: Path) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    command = [str(Path(sys.executable).with_name("kyma-module-manager")), "module", "validate", str(mixer)]
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"? everything in the folder module is read")


def contents(project: Path) -> dict[Path, str]:
    return {path: path.read_text() for path in project.rglob("*") if path.is_file() and path.suffix != ".pyc"}


def test_new_project_is_current_and_its_crd_is_that_of_its_class(mixer: Path) -> None:
    before = contents(mixer)
    klm("update", mixer, "--check")
    assert klm("update", mixer) == "✓ the CRD is that of the class\n"
    assert contents(mixer) == before
    manager = read_project(mixer).manager
    assert manager is not None
    assert load_yaml((mixer / "module/crd.yaml").read_text()) == crd_of(manager.crd)


def test_changed_class_becomes_the_crd(mixer: Path) -> None:
    edit(mixer / MODULE_CR, "Number of entries.", "How many entries there are.")
    edit(mixer / MODULE_CR, "maxLength=1024", "maxLength=2048")
    before = contents(mixer)
    forget_mixer()
    assert "module/crd.yaml is not that of the class Mixer: run kyma-module-manager module update" in notices(
        read_project(mixer)
    )
    assert "maxLength: 2048" in klm("update", mixer, "--check", status=1)
    assert contents(mixer) == before
    klm("update", mixer)
    assert "How many entries there are." in (mixer / "module/crd.yaml").read_text()
    klm("update", mixer, "--check")


@pytest.mark.parametrize("linked", ["module/crd.yaml", "module"])
def test_update_writes_through_no_link_of_the_project(mixer: Path, tmp_path: Path, linked: str) -> None:
    home = tmp_path / "home"
    edit(mixer / MODULE_CR, "Number of entries.", "How many entries there are.")
    (mixer / linked).rename(home)
    (mixer / linked).symlink_to(home)
    before = home.read_text() if home.is_file() else (home / "crd.yaml").read_text()
    forget_mixer()
    assert f"{linked} is a symbolic link" in klm("update", mixer, status=2)
    assert before == (home.read_text() if home.is_file() else (home / "crd.yaml").read_text())


def test_crd_that_is_not_generated_is_kept(mixer: Path) -> None:
    crd = mixer / "module/crd.yaml"
    own = crd.read_text().partition("\n")[2].replace("Number of entries.", "How many entries there are.")
    crd.write_text(own)
    (notice,) = [each for each in notices(read_project(mixer)) if "crd.yaml" in each]
    assert notice.endswith("make Mixer a msgspec.Struct with the fields that the function reads")
    assert "crd.yaml is not generated" in klm("update", mixer, status=2)
    assert crd.read_text() == own
    crd.unlink()
    klm("update", mixer)
