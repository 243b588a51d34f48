"""What a component descriptor says of a module, as its Manifest has it."""

from typing import Any

import msgspec
import pytest

from lifecycle_manager.manifest.logins import as_query, selector_of
from lifecycle_manager.modules import DescriptorUnreadable, wanted_manifest
from lifecycle_manager.modules.descriptor import Component, component_of
from lifecycle_manager_api import Manifest, names
from tests import builders

LAYER = {"name": "raw-manifest", "access": {"type": "localBlob", "localReference": f"sha256:{'0' * 64}"}}
CREDENTIALS = {"name": names.OCI_REGISTRY_CRED, "value": {names.OCI_REGISTRY_CRED: "garden"}, "version": "v1"}


def component(*resources: dict[str, Any], schema: str = "v2") -> Component:
    contexts = [{"type": "OCIRegistry", "baseUrl": "registry.example.com/modules"}]
    named = {"name": "kyma-project.io/module/garden", "version": "1.0.0"}
    content = {"resources": list(resources)}
    document: dict[str, Any] = {"component": {**named, **content, "repositoryContexts": contexts}}
    if schema == "v3":
        document = {"apiVersion": "ocm.software/v3alpha1", "metadata": named, "spec": content}
        document |= {"repositoryContexts": contexts}
    return component_of(msgspec.Raw(msgspec.json.encode(document)))


def manifest(of: Component) -> Manifest:
    made = wanted_manifest(builders.kyma(), builders.template("garden", "1.0.0"), of)
    assert made is not None
    return made


@pytest.mark.parametrize("schema", ["v2", "v3"])
def test_layer_is_pulled_with_the_secrets_that_its_label_selects(schema: str) -> None:
    made = manifest(component(LAYER | {"labels": [CREDENTIALS]}, schema=schema))
    selector = selector_of(made)
    assert selector is not None
    assert as_query(selector) == f"{names.OCI_REGISTRY_CRED}=garden"
    assert selector_of(manifest(component(LAYER, schema=schema))) is None


@pytest.mark.parametrize("value", [None, "garden", {}, {"a": 1}, ["garden"]])
def test_label_that_selects_no_secrets_is_told(value: Any) -> None:
    with pytest.raises(DescriptorUnreadable, match="oci-registry-cred on raw-manifest"):
        component(LAYER | {"labels": [CREDENTIALS | {"value": value}]})
