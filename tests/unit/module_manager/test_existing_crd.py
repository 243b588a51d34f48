"""A project for a CRD that there is, as KEDA's and telemetry's: the CRD is kept, and the project valid."""

import lzma
import os
import shutil
import sys
from pathlib import Path

import pytest

from kube_runtime import dump_yaml, load_documents, load_yaml
from tests.integration.lifecycle_manager import keda_manager, telemetry_manager
from tests.unit.module_manager.command_line import klm

FOLDER = Path(os.environ.get("KLM_REAL_MANIFESTS", "../shared/real-manifests"))
GROUP = "operator.kyma-project.io"
DEPLOYMENTS = {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["*"]}


@pytest.mark.parametrize(
    ("module", "kind", "version", "manager"),
    [("keda", "Keda", "v1alpha1", keda_manager), ("telemetry", "Telemetry", "v1beta1", telemetry_manager)],
)
def test_project_with_the_crd_of_a_real_module_is_valid_and_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, kind: str, version: str, manager: object
) -> None:
    real = FOLDER / f"{module}-v2.yaml.xz"
    if not real.exists():
        pytest.skip(f"no {real}; set KLM_REAL_MANIFESTS to its folder")
    monkeypatch.setattr(sys, "path", list(sys.path))
    project = tmp_path / module
    created = ("new", module, f"--group={GROUP}", f"--kind={kind}", f"--dir={project}", "--enableModuleConfig")
    klm(*created)

    documents = load_documents(lzma.decompress(real.read_bytes()))
    crds = (dict(each) for each in documents if each["kind"] == "CustomResourceDefinition")
    (crd,) = (each for each in crds if each["spec"]["names"]["kind"] == kind)
    (project / "module/crd.yaml").write_text(dump_yaml(crd))
    package = project / "src" / module
    (package / "module_cr.py").unlink()
    (package / "__init__.py").write_text(f"from {module}.manager import objects\n")
    shutil.copy(str(getattr(manager, "__file__", "")), package / "manager.py")
    described = {"apiVersion": f"{GROUP}/{version}", "kind": kind, "metadata": {"name": "default"}, "spec": {}}
    (project / "module/example.yaml").write_text(dump_yaml(described))
    changed(project / "module/module-template.yaml", {"data": described})
    allowed = [{"kind": "ConfigMap", "names": ["*"]}, {"group": "apps", "kind": "Deployment", "names": ["keda-*"]}]
    changed(project / "module/module-policy.yaml", {"namespacedResources": {"allow": allowed}})
    role, rest = (project / "module/skr-role.yaml").read_text().split("---\n", 1)
    rules = load_yaml(role)
    rules["rules"].append(DEPLOYMENTS)
    (project / "module/skr-role.yaml").write_text(f"{dump_yaml(rules)}---\n{rest}")

    printed = klm("validate", project)
    assert "✗" not in printed
    assert "take" not in printed
    before = (project / "module/crd.yaml").read_text()
    klm("update", project, status=2)
    assert (project / "module/crd.yaml").read_text() == before


def changed(file: Path, fields: dict[str, object]) -> None:
    """Replace fields of the spec of a document."""
    document = load_yaml(file.read_text())
    document["spec"] |= fields
    file.write_text(dump_yaml(document))
