"""The installation manifests of real modules pass with the policies that are derived from them."""

import lzma
import os
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from kube_runtime import ManifestInvalid, load_yaml, parse_manifest
from kyma_module_manager.project.commands import app
from lifecycle_manager.object_set.rules import objections
from lifecycle_manager_api import ModulePolicy, names
from lifecycle_manager_api.policy_checks import ModuleRules

FOLDER = Path(os.environ.get("KLM_REAL_MANIFESTS", "../shared/real-manifests"))
FILES = sorted(FOLDER.glob("*.yaml.xz"))
NONE = pytest.param(FOLDER, marks=pytest.mark.skip(f"no manifests in {FOLDER}; set KLM_REAL_MANIFESTS to their folder"))
EVERYTHING = {"*"}


def module_of(file: Path) -> str:
    return file.name.partition("-")[0]


@pytest.mark.skipif(not FILES, reason=f"no manifests in {FOLDER}; set KLM_REAL_MANIFESTS")
@pytest.mark.parametrize("file", FILES or [NONE], ids=lambda file: file.name.partition(".")[0])
def test_manifest_passes_with_the_policy_that_the_command_derives(file: Path, tmp_path: Path) -> None:
    module, text = module_of(file), lzma.decompress(file.read_bytes()).decode()
    (tmp_path / "module.yaml").write_text(text)
    try:
        objects = parse_manifest(text).objects
    except ManifestInvalid:
        pytest.skip("Lifecycle Manager refuses the manifest")

    printed = CliRunner().invoke(app, ["policy", str(tmp_path / "module.yaml"), "--module", module])
    needed = msgspec.convert(load_yaml(printed.stdout), ModulePolicy).spec

    denied = objections(objects, ModuleRules(module, needed), default_namespace=names.SKR_NAMESPACE)
    assert [str(each) for each in denied] == []
    if module != "gatekeeper":  # it sees everything by its webhooks, and limits its own namespace
        assert EVERYTHING & {*needed.secrets, *needed.service_accounts, *needed.pod_labels, *needed.namespaces} == set()
