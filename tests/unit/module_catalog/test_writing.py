"""The names of Manifests that are written."""

from lifecycle_manager.module_catalog.writing import named_apart
from tests import builders


def test_manifest_of_another_kyma_and_module_keeps_its_name() -> None:
    held = builders.manifest("bee-cee", kyma="a")
    wanted = builders.manifest("cee", kyma="a-bee")
    assert held.metadata.name == wanted.metadata.name == "a-bee-cee"

    written = named_apart(wanted, held)

    assert written.metadata.name.startswith("a-bee-cee-")
    assert written.metadata.labels == wanted.metadata.labels
    assert named_apart(written, written) == written
    assert named_apart(wanted, None) == wanted
    assert named_apart(wanted, builders.manifest("cee", "0.2.0", kyma="a-bee")) == wanted
