"""A module as a project of files: created, checked, packed."""

import io
import json
import re
import subprocess
import sys
import tarfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_runtime import dump_yaml, load_yaml, parse_objects
from kyma_module_manager import DeclarationError
from kyma_module_manager.project.checks import notices, require_well_formed, run_checks
from kyma_module_manager.project.generation import generate_project
from kyma_module_manager.project.names import ModuleNames
from kyma_module_manager.project.packing import pack
from kyma_module_manager.project.reading import ModuleProject, read_project
from kyma_oci import Blob
from lifecycle_manager_api import ModuleTemplate
from tests.unit.module_manager.command_line import edit


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """A new project, whose Python package is named after the test, since imports are cached."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    letters = "".join(character for character in request.node.name if character.islower())
    names = ModuleNames.of(letters[-41:], kind="Mixer", group="mixer.example.com")
    generate_project(names, tmp_path, enable_module_config=True)
    return tmp_path


def problems(project: Path) -> dict[str, tuple[str, ...]]:
    return {result.title: result.problems for result in run_checks(read_project(project)) if result.problems}


def test_status_fields_that_a_crd_lacks_are_recommended(project: Path) -> None:
    assert [each for each in notices(read_project(project)) if "status" in each] == []
    edit(
        project / "module/crd.yaml",
        "              observedGeneration:\n                description: The metadata.generation",
        "              observed:\n                description: Another field than",
    )
    edit(project / "module/crd.yaml", "              conditions:\n", "              others:\n")
    (found,) = [each for each in notices(read_project(project)) if "status" in each]
    assert found == "Mixer v1alpha1: the status has no observedGeneration, conditions"
    edit(project / "module/module-template.yaml", "enableModuleConfig: true", "enableModuleConfig: false")
    assert [each for each in notices(read_project(project)) if "the status has no" in each] == []


def test_names_are_derived_from_the_modules_name() -> None:
    names = ModuleNames.of("cloud-resources")

    assert names.as_mapping() == {
        "module": "cloud-resources",
        "kind": "CloudResources",
        "group": "cloud-resources.kyma-project.io",
        "package": "cloud_resources",
        "singular": "cloudresources",
        "plural": "cloudresourceses",
    }


@pytest.mark.parametrize("name", ["logging", "class"])
def test_package_hides_no_module_of_python(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    generate_project(ModuleNames.of(name), tmp_path, enable_module_config=True)

    assert not any(result.problems for result in run_checks(read_project(tmp_path)))


@pytest.mark.parametrize("name", ["", "ab", "Cloud", "cloud_resources", "cloud-", "a1b2", "x" * 42])
def test_name_that_kyma_rejects_is_rejected(name: str) -> None:
    with pytest.raises(DeclarationError, match="invalid module name"):
        ModuleNames.of(name)


@pytest.mark.parametrize(
    ("kind", "plural"), [("Telemetry", "telemetries"), ("Gateway", "gateways"), ("Mesh", "meshes")]
)
def test_plural_is_that_of_english(kind: str, plural: str) -> None:
    assert ModuleNames.of("some", kind=kind).plural == plural


def test_kind_and_group_that_kubernetes_rejects_are_rejected() -> None:
    with pytest.raises(DeclarationError, match="invalid kind"):
        ModuleNames.of("mixer", kind="mixer")
    with pytest.raises(DeclarationError, match="invalid API group"):
        ModuleNames.of("mixer", group="mixer")


def test_new_project_passes_every_check(project: Path) -> None:
    results = run_checks(read_project(project))

    assert len(results) == 11
    assert problems(project) == {}
    assert list(notices(read_project(project))) == []


def test_tests_of_a_new_project_pass_without_a_warning(project: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout
    assert "arning" not in done.stdout + done.stderr


def test_new_project_has_no_placeholder_left(project: Path) -> None:
    texts = {path: path.read_text() for path in project.rglob("*") if path.is_file() and path.suffix != ".pyc"}

    assert len(texts) == 27
    assert [path for path, text in texts.items() if "@@" in text] == []
    assert [path for path in texts if "__package__" in str(path) or path.suffix == ".template"] == []


def test_folder_that_is_not_empty_is_not_changed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("")

    with pytest.raises(DeclarationError, match="not empty"):
        generate_project(ModuleNames.of("mixer"), tmp_path)


def test_folder_that_is_not_a_project_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match="not a module project"):
        read_project(tmp_path)


def test_missing_part_is_named_and_no_further_check_runs(project: Path) -> None:
    (project / "module" / "crd.yaml").unlink()

    ((title, found),) = problems(project).items()
    assert title == "all parts of the module are present"
    assert found == (
        "folder module: found no object that installs the module",
        "folder module: found no CustomResourceDefinition of Mixer of mixer.example.com/v1alpha1",
    )


RELEASE, CRD = "module-release-meta.yaml", "crd.yaml"
PARTS, CRS = "all parts of the module are present", "default and example Module CR match the CRD"
RIGHTS = "Lifecycle Manager may apply the rendered objects"


@pytest.mark.parametrize(
    ("file", "old", "new", "check", "said"),
    [
        pytest.param(
            CRD, "group: mixer", "group: kitchen", PARTS,
            "Mixer of mixer.example.com/v1alpha1; there is Mixer of kitchen.example.com", id="group-of-the-crd",
        ),
        pytest.param(
            RELEASE, "moduleName: ", "moduleName: other-", "all parts name the same module", "the ModuleTemplate for",
            id="module-of-the-release",
        ),
        pytest.param(
            RELEASE, "version: 0.1.0", "version: 0.2.0", "versions and component agree",
            "no channel of the ModuleReleaseMeta has version 0.1.0", id="version-in-no-channel",
        ),
        pytest.param(
            "example.yaml", "greeting: hello", "greeting: [hello]", CRS,
            "the example: spec.entries.greeting is list, not string", id="field-of-the-example",
        ),
        pytest.param(
            CRD, "name: v1alpha1", "name: v1", CRS, "the CRD serves Mixer of mixer.example.com/v1",
            id="version-that-is-not-served",
        ),
        pytest.param(
            "example.yaml", "greeting: hello", '"": hello', "the manager renders default and example Module CR",
            "the example: EntryWithoutName: an entry has no name", id="failing-manager",
        ),
        pytest.param(
            "skr-role.yaml", "/status]", "/scale]", RIGHTS,
            "allows Lifecycle Manager to patch mixers/status of mixer.example.com", id="right-to-write-the-status",
        ),
        pytest.param(
            "skr-role.yaml", "resources: [mixers]", "resources: [mixeres]", RIGHTS,
            "get, list, watch mixers of mixer.example.com", id="right-for-another-plural",
        ),
        pytest.param(
            "skr-role.yaml", "[configmaps]", "[secrets]", RIGHTS, "create, delete, get, patch ConfigMap of core",
            id="right-to-apply-a-kind",
        ),
        pytest.param(
            "module-policy.yaml", "  name: ", "  name: other-", "the ModulePolicy allows the objects of the module",
            "its name has to be that of the module", id="name-of-the-policy",
        ),
    ],
)  # fmt: skip
def test_parts_that_do_not_fit_are_named(project: Path, file: str, old: str, new: str, check: str, said: str) -> None:
    edit(project / "module" / file, old, new)
    assert any(said in each for each in problems(project)[check])


def test_object_that_differs_in_each_run_is_named(project: Path) -> None:
    (file,) = project.glob("src/*/manager.py")
    edit(file, "dict(config.spec.entries)", '{"at": str(__import__("time").time_ns())}')
    found, _ = problems(project)["the manager renders default and example Module CR"]
    assert "ConfigMap default-" in found
    assert "is another one in each run" in found


def test_name_that_is_too_long_for_the_namespace_of_leases_is_found(project: Path) -> None:
    name = read_project(project).of_kind(ModuleTemplate.KIND)[0]["spec"]["moduleName"]
    for file in (*project.glob("module/*.yaml"), *project.rglob("*.py")):
        file.write_text(file.read_text().replace(f"moduleName: {name}", f"moduleName: {'x' * 42}"))
    assert "has 42 characters: at most 41" in str(run_checks(read_project(project)))


def test_attributes_that_macos_keeps_beside_files_are_no_documents(project: Path) -> None:
    (project / "module" / "._crd.yaml").write_bytes(b"\0\x05\x16\x07\xff")
    assert problems(project) == {}


def test_module_without_a_manager_has_no_namespace_of_leases(project: Path) -> None:
    (project / "pyproject.toml").unlink()
    for length, is_possible in ((63, True), (64, False)):
        for file in project.glob("module/*.yaml"):
            text = file.read_text().replace("enableModuleConfig: true", "enableModuleConfig: false")
            file.write_text(re.sub(r"moduleName: \S+", f"moduleName: {'x' * length}", text))
        assert ("at most 63" not in str(found := run_checks(read_project(project)))) is is_possible, found
        assert "at most 41" not in str(found)


def test_module_without_module_config_needs_no_manager(project: Path) -> None:
    edit(project / "module/module-template.yaml", "enableModuleConfig: true", "enableModuleConfig: false")
    (project / "pyproject.toml").unlink()

    assert problems(project) == {}
    assert list(notices(read_project(project))) == []


def test_module_with_module_config_needs_a_manager(project: Path) -> None:
    (project / "pyproject.toml").unlink()

    (found,) = problems(project)["all parts of the module are present"]
    assert found.startswith("pyproject.toml names no manager")


def test_packed_module_refers_to_its_layers(project: Path) -> None:
    packed = pack(read_project(project), "registry.example.com/modules")

    component = packed.module_template["spec"]["descriptor"]["component"]
    digests = {each["access"]["localReference"] for each in component["resources"]}
    assert digests == {layer.digest for layer in packed.layers[1:]}
    assert packed.repository == f"modules/component-descriptors/{component['name']}"
    assert packed.tag == "0.1.0"
    config = json.loads(packed.config.content)
    assert config["componentDescriptorLayer"]["digest"] == packed.layers[0].digest
    assert _content(packed.layers[1])[0] == "raw-manifest.yaml"
    (crd,) = parse_objects(_content(packed.layers[1])[1])
    assert crd.kind == "CustomResourceDefinition"


def test_packing_does_not_depend_on_the_time(project: Path) -> None:
    read = read_project(project)

    assert pack(read, "registry.example.com") == pack(read, "registry.example.com")


def test_packing_again_replaces_the_resources_of_the_last_time(project: Path) -> None:
    resources = "resources: [{name: raw-manifest, version: 0.0.1}, {name: manager-image, version: 0.1.0}]"
    edit(project / "module/module-template.yaml", "resources: []", resources)

    packed = pack(read_project(project), "registry.example.com/modules")

    component = packed.module_template["spec"]["descriptor"]["component"]
    assert [each["name"] for each in component["resources"]] == ["manager-image", "raw-manifest", "default-cr"]


def _content(blob: Blob) -> tuple[str, str]:
    with tarfile.open(fileobj=io.BytesIO(blob.content)) as archive:
        (member,) = archive.getmembers()
        file = archive.extractfile(member)
        assert file is not None
        return member.name, file.read().decode()


def test_objects_beyond_the_policy_are_named(project: Path) -> None:
    edit(project / "module/module-policy.yaml", "kind: ConfigMap", "kind: Secret")

    (title,), (found,) = problems(project).keys(), problems(project).values()

    assert title == "the ModulePolicy allows the objects of the module"
    assert any("the example: document 0: ConfigMap kyma-system/" in each for each in found)
    assert all("spec.namespacedResources.allow: does not list ConfigMap of the core group" in each for each in found)


def test_project_without_a_policy_is_shown_which_one_it_needs(project: Path) -> None:
    shipped = (project / "module/module-policy.yaml").read_text().replace("*-", "default-")  # as the example is named
    (project / "module/module-policy.yaml").unlink()

    (notice,) = notices(read_project(project))

    assert notice.startswith("the module needs a ModulePolicy")
    needed, written = (load_yaml(each)["spec"] for each in (notice.partition("\n\n")[2], shipped))
    for part in ("clusterResources", "namespacedResources"):
        assert needed[part] == written[part]


def test_value_of_another_type_is_named_with_its_field(project: Path) -> None:
    edit(project / "module/module-template.yaml", "version: 0.1.0\n  enable", "version: 1\n  enable")
    edit(project / "module/module-release-meta.yaml", "channels:", "channel:")
    edit(project / "module/crd.yaml", "served: true", "served: yes please")
    edit(project / "module/skr-role.yaml", "rules:", "rule:")

    assert set(problems(project)["all documents fit the schemas of their kinds"]) == {
        "CustomResourceDefinition: spec.versions[0].served is str, not boolean",
        "ModuleReleaseMeta: spec.channel is not in the schema",
        "ModuleTemplate: spec.version is int, not string",
        "ClusterRole: rule is not in the schema",
    }


def test_object_and_status_that_the_api_server_would_refuse_are_named(project: Path) -> None:
    manager = next((project / "src").glob("*/manager.py"))
    text = manager.read_text()
    manager.write_text(text.replace('"data": dict(', '"data": list(').replace('{"entries": len(', '{"entry": len('))

    found = problems(project)["objects and status fit the schemas of their kinds"]
    assert len(found) == 4  # of the default and of the example
    assert found[0].endswith("data is list, not object")
    assert found[1].endswith("status.entry is not in the schema")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> ModuleProject:
    directory = tmp_path_factory.mktemp("whole")
    generate_project(ModuleNames.of("whole"), directory)
    return read_project(directory)


@given(st.data())
def test_no_value_of_a_project_breaks_validation_or_packing(whole: ModuleProject, data: st.DataObject) -> None:
    documents = json.loads(json.dumps(whole.documents))  # in the same order, as `files` names theirs
    others = st.sampled_from([None, True, 7, "(", [], [None], {}, {"": None}])
    for _ in range(data.draw(st.integers(1, 3))):
        holder = data.draw(st.sampled_from(documents))
        while True:
            at = data.draw(st.sampled_from([*holder] if isinstance(holder, dict) else range(len(holder))))
            if not isinstance(holder[at], dict | list) or not holder[at] or data.draw(st.booleans()):
                break
            holder = holder[at]
        if holder not in documents or at not in {"apiVersion", "kind"}:  # these are read with the file
            holder[at] = data.draw(others)
    changed = replace(whole, documents=tuple(documents))

    assert run_checks(changed)
    with suppress(DeclarationError):
        require_well_formed(changed)
        pack(changed, "registry.example.com")


MORE = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: operator, namespace: kyma-system}
spec: {selector: {}, template: {}}
---
# nothing
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ServiceAccount, metadata: {name: operator}}
- {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: operator}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: spoons.mixer.example.com}
spec:
  group: mixer.example.com
  names: {kind: Spoon, plural: spoons}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
---
apiVersion: mixer.example.com/v1
kind: Spoon
metadata: {name: the-first}
"""


def test_every_object_of_the_folder_is_packed_or_named_with_what_it_is_for(project: Path) -> None:
    (project / "module" / "manifest.yaml").write_text(MORE)
    (project / "module" / "more.json").write_text('{"apiVersion":"v1","kind":"Secret","metadata":{"name":"json"}}')
    (project / "module" / "more.yml").write_text("apiVersion: v1\nkind: Secret\nmetadata: {name: yml}\n")

    read = read_project(project)

    packed = parse_objects(_content(pack(read, "registry.example.com").layers[1])[1])
    assert [(each.kind, each.name) for each in packed[1:]] == [
        ("Deployment", "operator"),
        ("ServiceAccount", "operator"),
        ("ClusterRole", "operator"),
        ("CustomResourceDefinition", "spoons.mixer.example.com"),
        ("Spoon", "the-first"),
        ("Secret", "json"),
        ("Secret", "yml"),
    ]
    others = [each.split(": ")[0] for each in read.others()]
    assert others == [
        "module/example.yaml",
        "module/module-policy.yaml",
        "module/module-release-meta.yaml",
        "module/module-template.yaml",
        "module/skr-role.yaml",
        "module/skr-role.yaml",
    ]
    assert len(packed) + len(others) == len(read.documents)
    assert [title for title, found in problems(project).items() if found] == [
        "the ModulePolicy allows the objects of the module"
    ]


ANOTHER_CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: mixers.mixer.example.com}
spec: {group: mixer.example.com, names: {kind: Mixer, plural: mixers}, scope: Namespaced, versions: []}
"""


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("base/deployment.yaml", "", "module/base: folders are not read; render it into one file"),
        ("values.txt", "", "module/values.txt is not read: expected .yaml, .yml or .json"),
        (
            "kustomization.yaml",
            "{apiVersion: kustomize.config.k8s.io/v1beta1, kind: Kustomization, metadata: {name: it}}",
            "module/kustomization.yaml: Kustomization is no object; render it",
        ),
        (
            "other.yaml",
            ANOTHER_CRD,
            "stands in module/crd.yaml already",
        ),
    ],
)
def test_what_is_not_read_is_a_problem(project: Path, name: str, content: str, said: str) -> None:
    (project / "module" / name).parent.mkdir(exist_ok=True)
    (project / "module" / name).write_text(content)

    (found,) = problems(project)["everything in the folder module is read"]
    assert said in found


def test_notes_beside_the_objects_are_no_problem(project: Path) -> None:
    (project / "module" / "README.md").write_text("# Objects")
    (project / "module" / ".gitignore").write_text("*.bak")
    assert problems(project) == {}


def test_keys_that_stand_twice_are_a_warning_as_for_kubectl(project: Path) -> None:
    (project / "module" / "more.yaml").write_text("apiVersion: v1\nkind: Secret\nkind: ConfigMap\nmetadata: {name: it}")
    (warning,) = read_project(project).warnings
    assert "more.yaml" in warning


def test_module_without_a_crd_or_a_release_or_a_default_is_valid(tmp_path: Path) -> None:
    generate_project(ModuleNames.of("without"), tmp_path)
    for name in ("crd", "module-release-meta", "example", "skr-role", "module-policy"):
        (tmp_path / "module" / f"{name}.yaml").unlink()
    (tmp_path / "pyproject.toml").unlink()
    template = load_yaml((tmp_path / "module/module-template.yaml").read_text())
    del template["spec"]["data"]
    (tmp_path / "module/module-template.yaml").write_text(dump_yaml(template))
    (tmp_path / "module/manifest.yaml").write_text(MORE)

    assert problems(tmp_path) == {}
    packed = pack(read_project(tmp_path), "registry.example.com")
    resources = packed.module_template["spec"]["descriptor"]["component"]["resources"]
    assert [each["name"] for each in resources] == ["raw-manifest"]
