"""Modules that modulectl describes: what is made of them is what modulectl makes, and nothing of them gets lost."""

import io
import json
import lzma
import os
import shutil
import ssl
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from kube_runtime import dump_yaml, load_yaml, parse_manifest
from kyma_certs import LeafRequest, Usage, create_ca, issue
from kyma_module_manager.project import running
from kyma_module_manager.project.modulectl.component import constructor_of, module_template, pack_module
from kyma_module_manager.project.modulectl.images import image_in
from kyma_module_manager.project.modulectl.module import read_module
from kyma_module_manager.project.packing import PackedModule
from kyma_oci import Artifact, Blob, Login
from kyma_oci.signatures.content import signed_component
from kyma_oci.signatures.descriptors import verify
from kyma_oci.signatures.keys import keys_in
from tests.unit.module_manager.command_line import edit, git, klm

HARBOUR = Path(__file__).parent / "harbour"
RECORDED = HARBOUR / "recorded"
"""What modulectl 3.2.0 wrote for that module. `test_modulectl_writes_the_same` compares with the program itself."""
REAL = Path(os.environ.get("KLM_REAL_MANIFESTS", "../shared/real-manifests"))
MODULES = ("harbour", "keda", "serverless", "templateop", "btp", "apigateway")
DIGEST = "0123456789abcdef" * 4
Document = dict[str, Any]


@pytest.fixture
def pushed(monkeypatch: pytest.MonkeyPatch) -> list[PackedModule]:
    """What was pushed; there is no registry, so that it is done at once."""
    found: list[PackedModule] = []

    async def push(artifact: Artifact, login: Login | None, packed: PackedModule) -> str:
        found.append(packed)
        return "sha256:0"

    monkeypatch.setattr(running, "_push", push)
    return found


def package(module: Path, *more: object, status: int = 0) -> str:
    """Package a module that is in a Git repository of its own."""
    return klm(
        "package", module, "--registry", "127.0.0.1:5000/modules", "--module-sources-git-directory", module, *more,
        status=status,
    )  # fmt: skip


def normalised(constructor: Document) -> Document:
    """Return a constructor without what differs from run to run: folders, the commit, and the order of images."""
    (component,) = constructor["components"]
    for each in component["resources"]:
        if "input" in each and each["input"]["type"] == "dir":
            each["input"]["path"] = "FOLDER"
        elif "input" in each:
            each["input"]["path"] = Path(each["input"]["path"]).name
    component["resources"].sort(key=lambda each: each.get("access", {}).get("imageReference", "~"))
    component["sources"][0]["access"]["commit"] = "COMMIT"
    return constructor


def files_in(blob: Blob) -> dict[str, str]:
    with tarfile.open(fileobj=io.BytesIO(blob.content)) as archive:
        return {each.name: archive.extractfile(each).read().decode() for each in archive}  # type: ignore[union-attr]


def test_template_and_constructor_are_those_that_modulectl_wrote(harbour: Path) -> None:
    klm(
        "create", "--config-file", harbour / "module-config.yaml", "--module-sources-git-directory", harbour,
        "--output", harbour / "template.yaml", "--output-constructor-file", harbour / "component-constructor.yaml",
    )  # fmt: skip

    written, recorded = (load_yaml((each / "template.yaml").read_text()) for each in (harbour, RECORDED))
    assert written == recorded
    written, recorded = (load_yaml((each / "component-constructor.yaml").read_text()) for each in (harbour, RECORDED))
    assert normalised(written) == normalised(recorded)


@pytest.mark.skipif(shutil.which("modulectl") is None, reason="no modulectl on PATH")
@pytest.mark.parametrize("module", MODULES)
def test_modulectl_writes_the_same(module: str, harbour: Path, tmp_path: Path) -> None:
    """Of the recorded module, and of real ones with a config of the same form as in their repositories."""
    folder = harbour if module == "harbour" else real_module(module, tmp_path / module)
    names = ("template.yaml", "component-constructor.yaml")
    outputs = [["-o", f"{run}-{names[0]}", "--output-constructor-file", f"{run}-{names[1]}"] for run in ("go", "ours")]
    program = [str(shutil.which("modulectl")), "create", "-c", "module-config.yaml", *outputs[0]]
    subprocess.run(program, cwd=folder, check=True, capture_output=True, timeout=240)

    klm(
        "create", "-c", folder / "module-config.yaml", "--module-sources-git-directory", folder,
        "-o", folder / f"ours-{names[0]}", "--output-constructor-file", folder / f"ours-{names[1]}",
    )  # fmt: skip

    go, ours = ([load_yaml((folder / f"{run}-{name}").read_text()) for name in names] for run in ("go", "ours"))
    assert ours[0] == go[0]
    for each in (go[1], ours[1]):
        each["components"][0]["resources"][-1]["input"]["path"] = names[0]
    assert normalised(ours[1]) == normalised(go[1])


@pytest.mark.skipif(shutil.which("ocm") is None, reason="no ocm on PATH")
@pytest.mark.parametrize("module", MODULES)
def test_package_is_the_component_that_ocm_makes_of_the_constructor(
    module: str, harbour: Path, tmp_path: Path, pushed: list[PackedModule]
) -> None:
    """Times and digests of layers are left out: OCM's program writes the time into them."""
    folder, archive = harbour if module == "harbour" else real_module(module, tmp_path / module), tmp_path / "archive"
    config = ("-c", folder / "module-config.yaml", "--module-sources-git-directory", folder)
    files = ("-o", folder / "template.yaml", "--output-constructor-file", folder / "component-constructor.yaml")
    klm("create", *config, *files)
    ocm = partial(subprocess.run, cwd=folder, check=True, capture_output=True, text=True, timeout=240)
    program = str(shutil.which("ocm"))
    ocm([program, *f"add componentversions --create --skip-digest-generation --file {archive}".split(), files[-1]])
    shown = ocm([program, "get", "componentversions", str(archive), "-o", "yaml"]).stdout

    package(folder)
    (packed,) = pushed
    theirs = load_yaml(shown.removeprefix("---"))
    ours = load_yaml(files_in(packed.layers[0])["component-descriptor.yaml"])
    made = {each.digest: each.content for each in packed.layers}
    blobs = {each.name.replace(".", ":"): each.read_bytes() for each in (archive / "blobs").iterdir()}
    assert comparable(ours, made) == comparable(theirs, blobs)


def comparable(descriptor: Document, blobs: Mapping[str, bytes]) -> Document:
    """Return a descriptor with the contents of its layers; without times, digests and the registry."""
    component = {**descriptor["component"], "repositoryContexts": []}
    component.pop("creationTime", None)
    for each in component["resources"]:
        each.pop("digest", None)
        if digest := each["access"].pop("localReference", None):
            is_tree = each["type"] == "directoryTree"
            each["content"] = files_in(Blob(blobs[digest], "")) if is_tree else load_yaml(blobs[digest])
    return {**descriptor, "component": component}


def test_package_has_the_components_parts_and_the_manifest_as_it_is(harbour: Path, pushed: list[PackedModule]) -> None:
    printed = package(harbour)

    (packed,) = pushed
    (recorded,) = load_yaml((RECORDED / "component-constructor.yaml").read_text())["components"]
    component = load_yaml(files_in(packed.layers[0])["component-descriptor.yaml"])["component"]
    assert json.loads(component["provider"]) == recorded["provider"]
    assert component["labels"] == recorded["labels"]
    assert {**component["sources"][0]["access"], "commit": ""} == {**recorded["sources"][0]["access"], "commit": ""}
    parts = ("name", "type", "version", "labels")
    assert [tuple(each.get(part) for part in parts) for each in component["resources"]] == [
        tuple(each.get(part) for part in parts)
        for each in sorted(recorded["resources"], key=lambda each: each.get("access", {}).get("imageReference", "~"))
    ]
    assert files_in(packed.layers[1]) == {"harbour.yaml": (HARBOUR / "harbour.yaml").read_text()}
    assert files_in(packed.layers[2]) == {"default-harbour.yaml": (HARBOUR / "default-harbour.yaml").read_text()}
    assert load_yaml(packed.layers[3].content) == packed.module_template
    digests = {
        each["access"]["localReference"] for each in component["resources"] if "localReference" in each["access"]
    }
    assert digests == {each.digest for each in packed.layers[1:]}
    assert "7 objects: 1 ConfigMap, 2 CustomResourceDefinition, 1 Deployment" in printed


def test_validation_says_what_the_status_of_the_module_cr_lacks(harbour: Path) -> None:
    done = klm("validate", harbour)

    assert "the status has no observedGeneration" in done
    assert "Ship" not in done
    assert "take served out of status.required" in done
    assert "status.conditions[0].type is 'Ready', not one of ['Installed']" in done
    assert "the field channel is ignored, as modulectl does" in done


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("name: kyma-project.io/module/harbour", "name: harbour", "name 'harbour' is no component"),
        ("kyma-project.io/module/harbour", f"kyma-project.io/module/{'x' * 64}", "has 64 characters: at most 63"),
        ("version: 1.2.3\n", "version: v1.2\n", "version 'v1.2' is no semantic version"),
        ("version: 1.2.3\n", "version:\n", "version '' is no semantic version"),
        ("version: 1.2.3\n", "version: 1.2\n", "Expected `str`, got `float`"),
        ("manifest: harbour.yaml", "manifest: http://example.com/m.yaml", "expected a link with https"),
        ("manifest: harbour.yaml", "manifest: /etc/passwd", "is absolute"),
        ("manifest: harbour.yaml", "manifest: recorded", "is a folder: render it into one file"),
        ("manifest: harbour.yaml", "manifest: other.yaml", "other.yaml can't be read: No such file"),
        ("team: kyma/Sailors\n", "", "team is missing; without one set securityScanEnabled: false"),
        ("documentation: https://example.com/harbour\n", "", "documentation is missing"),
        ("  kind: Deployment", "  kind: ''", "manager has an entry without kind"),
        ("    kind: Ship", "    kin: Ship", "associatedResources has an entry without kind"),
        ("big-icon", "module-icon", "icons has a name twice"),
    ],
)
def test_config_that_modulectl_refuses_is_refused_with_its_field(harbour: Path, old: str, new: str, said: str) -> None:
    edit(harbour / "module-config.yaml", old, new)
    for command in (("validate", harbour), ("create", "-c", harbour / "module-config.yaml")):
        assert said in klm(*command, status=None)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "kind: ConfigMap\n    metadata: {name: tides}",
            "kind: ServiceAccount\n    metadata: {name: harbour-manager, namespace: harbour-system}",
            "stands in harbour.yaml, document 4 already",
        ),
        ("harbour/manager:1.2.3", "harbour/manager:latest", "has the tag latest"),
        ("harbour/manager:1.2.3", "harbour/manager", "has no tag or digest"),
        (
            "apiVersion: v1\nkind: Namespace",
            "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization",
            "is no object: render it",
        ),
    ],
)
def test_manifest_of_which_something_would_be_lost_is_refused(
    harbour: Path, pushed: list[PackedModule], old: str, new: str, said: str
) -> None:
    edit(harbour / "harbour.yaml", old, new)

    assert said in package(harbour, status=1)
    assert pushed == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("  name: harbour-manager", "  name: other", "the manager Deployment other is no Deployment or StatefulSet"),
        ("version: 1.2.3\n", "version: 1.2.4\n", "no image of the manager harbour-manager has the tag 1.2.4"),
    ],
)
def test_manager_of_another_version_is_packed_as_modulectl_does_by_default(
    harbour: Path, pushed: list[PackedModule], old: str, new: str, said: str
) -> None:
    edit(harbour / "module-config.yaml", old, new)
    assert said in klm("validate", harbour)
    assert said in package(harbour)
    assert len(pushed) == 1


def test_folder_that_is_no_repository_is_named(harbour: Path, tmp_path: Path, pushed: list[PackedModule]) -> None:
    assert "is no Git repository" in package(harbour, "--module-sources-git-directory", tmp_path, status=1)
    assert pushed == []


def test_project_that_is_made_from_a_config_is_valid_and_has_the_same_component(
    harbour: Path, tmp_path: Path, pushed: list[PackedModule]
) -> None:
    folder, config = tmp_path / "project", harbour / "module-config.yaml"
    klm("new", "--from", config, "--dir", folder, "--module-sources-git-directory", harbour)
    klm("validate", folder)

    for module in (harbour, folder):
        package(module)

    of_config, of_project = (
        load_yaml(files_in(each.layers[0])["component-descriptor.yaml"])["component"] for each in pushed
    )
    for part in ("name", "version", "provider", "labels", "sources"):
        assert of_config[part] == of_project[part]
    text = files_in(pushed[1].layers[1])["raw-manifest.yaml"]
    written = parse_manifest((HARBOUR / "harbour.yaml").read_text()).objects
    assert [each.document for each in parse_manifest(text).objects] == [each.document for each in written]


def test_mandatory_module_is_released_as_one(harbour: Path, tmp_path: Path) -> None:
    edit(harbour / "module-config.yaml", "channel: regular", "mandatory: true")
    assert "it is spec.mandatory of the ModuleReleaseMeta" in klm("validate", harbour)
    created = ("--from", harbour / "module-config.yaml", "--dir", tmp_path / "it")
    klm("new", *created, "--module-sources-git-directory", harbour)

    release = load_yaml((tmp_path / "it" / "module" / "module-release-meta.yaml").read_text())["spec"]
    assert release["mandatory"] == {"version": "1.2.3"}
    klm("validate", tmp_path / "it")


def test_linked_manifest_is_downloaded_over_https_alone(
    harbour: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pushed: list[PackedModule]
) -> None:
    with served(harbour, tmp_path) as address:
        edit(harbour / "module-config.yaml", "manifest: harbour.yaml", f"manifest: {address}/harbour.yaml?raw=true")
        edit(harbour / "module-config.yaml", "defaultCR: default", f"defaultCR: {address}/default")
        assert "can't be downloaded" in package(harbour, status=1)
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca"))
        package(harbour)
        edit(harbour / "module-config.yaml", "harbour.yaml?raw=true", "missing.yaml")
        assert "404" in package(harbour, status=1)

    assert files_in(pushed[0].layers[1]) == {"harbour.yaml": (HARBOUR / "harbour.yaml").read_text()}
    resources = {each["name"]: each["link"] for each in pushed[0].module_template["spec"]["resources"]}
    assert resources["rawManifest"] == "https://example.com/releases/1.2.3/harbour.yaml"  # as the config says


@contextmanager
def served(folder: Path, scratch: Path) -> Iterator[str]:
    """Serve a folder over TLS; the CA is in the file `ca` of `scratch`."""
    now = datetime.now(UTC)
    ca = create_ca("test", lifetime=timedelta(days=1), now=now)
    request = LeafRequest(common_name="localhost", dns_names=("localhost",), usages=frozenset({Usage.SERVER}))
    pair = issue(ca, request, now=now)
    for name, content in (("ca", ca.certificate_pem), ("crt", pair.certificate_pem), ("key", pair.key_pem)):
        (scratch / name).write_bytes(content)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(scratch / "crt", scratch / "key")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(folder))) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"https://localhost:{server.server_port}"
        server.shutdown()
        thread.join()


def test_component_in_the_registry_is_signed(harbour: Path, tmp_path: Path, pushed: list[PackedModule]) -> None:
    key, file = generate_private_key(65537, 2048), tmp_path / "key.pem"
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    refused = package(harbour, "--sign", file, status=1)
    assert "without one are registry.example.com/harbour/manager:1.2.3" in refused
    assert pushed == []
    for tag in ("manager:1.2.3", "pilot:2.0.0-rc.1", "chart:v20260101-abcdef0"):
        edit(harbour / "harbour.yaml", tag, f"{tag}@sha256:{DIGEST}")
    package(harbour, "--sign", file)

    descriptor = msgspec.json.encode(load_yaml(files_in(pushed[0].layers[0])["component-descriptor.yaml"]))
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    verify(descriptor, keys_in({"key.pub": public}), datetime.now(UTC))
    component = signed_component(descriptor)
    assert [*component.layers] == ["raw-manifest"]
    assert len(component.images) == 5


@pytest.mark.parametrize(
    ("reference", "resource", "version"),
    [
        ("nginx:1.29.0", "nginx", "1.29.0"),
        ("localhost:5000/a/b:v1.2.3-rc.1+x", None, None),
        ("localhost:5000/a/b:v1.2.3-rc.1", "b", "v1.2.3-rc.1"),
        ("europe-docker.pkg.dev/kyma/prod/thing:v20260101-abc_1", "thing", "0.0.0-v20260101-abc-1"),
        (f"a/b@sha256:{DIGEST}", "b-01234567", "0.0.0+sha256.0123456789ab"),
        (f"a/b:1.0.0@sha256:{DIGEST}", "b-01234567", "1.0.0+sha256.0123456789ab"),
        (f"a/b:main@sha256:{DIGEST}", "b-01234567", "0.0.0-main+sha256.0123456789ab"),
        ("nginx", None, None),
        ("localhost:5000/nginx", None, None),
        (":8080", None, None),
        ("http://example.com:80/x", None, None),
        ("a: b", None, None),
        ("A/B:1", None, None),
        (DIGEST, None, None),
    ],
)
def test_image_is_named_in_the_component_as_by_modulectl(
    reference: str, resource: str | None, version: str | None
) -> None:
    image = image_in(reference)
    assert (image and image.resource, image and image.version) == (resource, version)


@pytest.mark.skipif(not REAL.is_dir(), reason=f"no manifests in {REAL}; set KLM_REAL_MANIFESTS to their folder")
@pytest.mark.parametrize("module", ["keda", "serverless", "templateop", "btp", "apigateway", "istio", "telemetry"])
def test_real_module_keeps_all_its_objects(module: str, tmp_path: Path) -> None:
    found = read_module(real_module(module, tmp_path / module) / "module-config.yaml")

    packed = pack_module(found, "0" * 40, "registry.example.com")

    (text,) = files_in(packed.layers[1]).values()
    assert text == found.manifest.text
    klm("validate", tmp_path / module)
    assert module_template(found)["spec"]["version"] == found.config.version
    assert constructor_of(found, "", {})["components"][0]["name"] == found.config.name


def real_module(module: str, folder: Path) -> Path:
    """Write a real manifest, with a config as its repository has it, into a Git repository."""
    if not REAL.is_dir():
        pytest.skip(f"no manifests in {REAL}; set KLM_REAL_MANIFESTS to their folder")
    folder.mkdir()
    text = lzma.decompress((REAL / f"{module}-v2.yaml.xz").read_bytes()).decode()
    (folder / "manifest.yaml").write_text(text)
    objects = parse_manifest(text).objects
    manager = next(each for each in objects if each.kind == "Deployment")
    container = manager.document["spec"]["template"]["spec"]["containers"][0]
    # Some are published with the image that a release replaces.
    version = str(container["image"]).rpartition(":")[2]
    if not version[0].isdigit():
        version = "1.0.0"
        text = text.replace(container["image"], f"registry.example.com/{module}:{version}")
        (folder / "manifest.yaml").write_text(text)
    config = {
        "name": f"kyma-project.io/module/{module}",
        "version": version,
        "manifest": "manifest.yaml",
        "repository": f"https://github.com/kyma-project/{module}.git",
        "documentation": "https://example.com/docs",
        "team": "kyma/Team",
        "icons": [{"name": "module-icon", "link": "https://example.com/icon.svg"}],
        "manager": {"name": manager.name, "group": "apps", "version": "v1", "kind": "Deployment"},
    }
    (folder / "module-config.yaml").write_text(dump_yaml(config))
    git(folder)
    return folder
