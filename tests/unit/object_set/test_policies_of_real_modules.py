"""The installation manifests of real modules pass with the policies that are derived from them."""

import lzma
import os
from pathlib import Path

import pytest

from kube_runtime import ManifestInvalid, parse_manifest
from lifecycle_manager.object_set import objections
from lifecycle_manager_api import names
from lifecycle_manager_api.needed_policy import needed_policy
from lifecycle_manager_api.policy_checks import ModuleRules

FOLDER = Path(os.environ.get("KLM_REAL_MANIFESTS", "../shared/real-manifests"))
FILES = sorted(FOLDER.glob("*.yaml.xz"))
EVERYTHING = {"*"}


def module_of(file: Path) -> str:
    return file.name.partition("-")[0]


@pytest.mark.skipif(not FILES, reason=f"no manifests in {FOLDER}; set KLM_REAL_MANIFESTS")
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name.partition(".")[0])
def test_manifest_passes_with_the_policy_that_is_derived_from_it(file: Path) -> None:
    module, text = module_of(file), lzma.decompress(file.read_bytes()).decode()
    try:
        objects = parse_manifest(text).objects
    except ManifestInvalid:
        pytest.skip("Lifecycle Manager refuses the manifest")
    needed = needed_policy(objects, module, default_namespace=names.SKR_NAMESPACE)

    denied = objections(objects, ModuleRules(module, needed), default_namespace=names.SKR_NAMESPACE)

    assert [str(each) for each in denied] == []
    if module != "gatekeeper":  # it sees everything by its webhooks, and limits its own namespace
        assert EVERYTHING & {*needed.secrets, *needed.service_accounts, *needed.pod_labels, *needed.namespaces} == set()
