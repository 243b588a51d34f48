"""Component descriptors, and what a Manifest has of them."""

import hashlib
from typing import Any

import msgspec
import pytest

from kyma_oci import Component, DescriptorUnreadable, Layer, SourceInvalid, component_of
from kyma_oci.descriptor import OCI_REGISTRY_CRED
from lifecycle_manager.module_catalog.manifests import differs, wanted_manifest
from lifecycle_manager.module_sources.references import source_in
from lifecycle_manager_api import Manifest
from tests import builders

LAYER = {"name": "raw-manifest", "access": {"type": "localBlob", "localReference": f"sha256:{'0' * 64}"}}
CREDENTIALS = {"name": OCI_REGISTRY_CRED, "value": {OCI_REGISTRY_CRED: "garden"}, "version": "v1"}


def component(*resources: dict[str, Any], schema: str = "v2", **context: str) -> Component:
    contexts = [{"type": "OCIRegistry", "baseUrl": "registry.example.com/modules"} | context]
    named = {"name": "kyma-project.io/module/garden", "version": "1.0.0"}
    content = {"resources": list(resources)}
    document: dict[str, Any] = {"component": {**named, **content, "repositoryContexts": contexts}}
    if schema == "v3":
        document = {"apiVersion": "ocm.software/v3alpha1", "metadata": named, "spec": content}
        document |= {"repositoryContexts": contexts}
    return component_of(msgspec.Raw(msgspec.json.encode(document)))


def manifest(of: Component) -> Manifest:
    template = builders.template("garden", "1.0.0")
    made = wanted_manifest(builders.kyma(), template, of, default_cr=template.spec.data)
    assert made is not None
    return made


@pytest.mark.parametrize(
    ("context", "url"),
    [
        ({}, "modules/component-descriptors/kyma-project.io/module/garden"),
        ({"subPath": "/unsigned/"}, "modules/unsigned/component-descriptors/kyma-project.io/module/garden"),
        (
            {"componentNameMapping": "sha256-digest"},
            f"modules/{hashlib.sha256(b'kyma-project.io/module/garden').hexdigest()}",
        ),
    ],
)
def test_layer_is_in_the_newest_repository_context(context: dict[str, str], url: str) -> None:
    source = source_in(manifest(component(LAYER, **context)).spec.install.source)
    assert isinstance(source, Layer)
    assert source.url == f"https://registry.example.com/v2/{url}/blobs/sha256:{'0' * 64}"


def test_repository_that_is_no_address_is_an_error_of_the_source_alone() -> None:
    source = manifest(component(LAYER, baseUrl="https://[")).spec.install.source
    with pytest.raises(SourceInvalid, match="is not a repository"):
        source_in(source)


@pytest.mark.parametrize("schema", ["v2", "v3"])
def test_layer_is_pulled_with_the_secrets_that_its_label_selects(schema: str) -> None:
    def selector_in(made: Manifest) -> Any:
        return msgspec.json.decode(made.spec.install.source).get("credSecretSelector")

    labelled = manifest(component(LAYER | {"labels": [CREDENTIALS]}, schema=schema))
    assert selector_in(labelled) == {"matchLabels": {OCI_REGISTRY_CRED: "garden"}}
    assert selector_in(manifest(component(LAYER, schema=schema))) is None


@pytest.mark.parametrize("value", [None, "garden", {}, {"a": 1}, ["garden"]])
def test_label_that_selects_no_secrets_is_an_error(value: Any) -> None:
    with pytest.raises(DescriptorUnreadable, match="oci-registry-cred on raw-manifest"):
        component(LAYER | {"labels": [CREDENTIALS | {"value": value}]})


@pytest.mark.parametrize("schema", ["v2", "v3"])
def test_manifest_lists_the_images_of_the_component(schema: str) -> None:
    image = "eu.registry.example.com/restricted/garden-manager:1.0.0"
    resource = {"name": "garden-manager", "type": "ociArtifact", "relation": "external"}
    access = {"type": "ociArtifact", "imageReference": image}
    made = manifest(component(LAYER, resource | {"access": access}, resource | {"access": access}, schema=schema))
    assert made.spec.localized_images == (image,)
    without = manifest(component(LAYER, schema=schema))
    assert differs(without, made)
    assert not differs(made, made)


def test_images_that_others_put_on_a_manifest_are_kept() -> None:
    wanted = manifest(component(LAYER))
    theirs = msgspec.structs.replace(wanted.spec, localized_images=("registry.example.com/garden-manager:1.0.0",))
    assert not differs(msgspec.structs.replace(wanted, spec=theirs), wanted)


@pytest.mark.parametrize("content", [b"[" * 100_000, b'{"component": {"x": ' + b"[" * 100_000])
def test_descriptor_that_is_nested_without_end_is_unreadable(content: bytes) -> None:
    with pytest.raises(DescriptorUnreadable):
        component_of(msgspec.Raw(content))
