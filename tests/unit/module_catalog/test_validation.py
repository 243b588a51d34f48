"""What is wrong with a ModuleTemplate or a ModuleReleaseMeta, said when somebody writes it."""

from typing import Any

import msgspec
import pytest

from lifecycle_manager.module_catalog.objections import objection_to_template, warnings_about_release
from lifecycle_manager.module_catalog.offer import Offer
from lifecycle_manager_api import ModuleTemplate
from tests import builders

NOTHING = Offer.of((), ())


def template(name: str = "garden-1.0.0", **changed: Any) -> ModuleTemplate:
    document = msgspec.json.decode(msgspec.json.encode(builders.template("garden", "1.0.0")))
    document["metadata"]["name"] = name
    document["spec"] |= changed
    return msgspec.json.decode(msgspec.json.encode(document), type=ModuleTemplate)


def test_template_that_can_be_offered_meets_no_objection() -> None:
    manager = {"group": "apps", "version": "v1", "kind": "Deployment", "name": "garden", "namespace": "kyma-system"}
    check = {"jsonPath": "status.health", "value": "green", "mappedState": "Ready"}
    of_condition = check | {"jsonPath": ".status.conditions[?(@.type=='Ready')].status"}
    assert objection_to_template(template(), NOTHING) is None
    assert objection_to_template(template(manager=manager, customStateCheck=[check, of_condition]), NOTHING) is None
    assert objection_to_template(builders.template("garden", channel="fast"), NOTHING) is None


V3 = {"apiVersion": "ocm.software/v3alpha1", "metadata": {"name": "kyma-project.io/module/garden", "version": "1.0.0"}}
V2 = {"name": "kyma-project.io/module/garden", "version": "1.0.0"}


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"descriptor": {"component": V2 | {"resources": 7}}}, "resources of spec.descriptor is no list"),
        ({"descriptor": {"component": V2 | {"repositoryContexts": True}}}, "repositoryContexts of spec.descriptor is"),
        ({"descriptor": V3 | {"spec": ["raw-manifest"]}}, "spec.descriptor.spec is missing"),
        ({"descriptor": V3 | {"spec": {"resources": "raw-manifest"}}}, "resources of spec.descriptor is no list"),
        ({"descriptor": {"kind": "Pod"}}, "spec.descriptor.component is missing"),
        ({"descriptor": "text"}, "spec.descriptor is no object"),
        ({"version": "1.0.1"}, "spec.version is 1.0.1"),
        ({"data": {"spec": {}}}, "spec.data is no Kubernetes object"),
        (
            {"customStateCheck": [{"jsonPath": "status.conditions[?(@.type", "value": "x", "mappedState": "Ready"}]},
            "spec.customStateCheck[0].jsonPath 'status.conditions[?(@.type' is no JSONPath",
        ),
        ({"data": [1]}, "spec.data is no Kubernetes object"),
        (
            {"manager": {"group": "apps", "version": "v1", "kind": "Deployment", "name": "garden"}},
            "a Deployment and no namespace",
        ),
        (
            {"manager": {"group": "", "version": "v1", "kind": "Service", "name": "garden"}},
            "a Service and no namespace",
        ),
        (
            {"customStateCheck": [{"jsonPath": "a", "value": "b", "mappedState": "Unmanaged"}]},
            "'Unmanaged' is no state of a module",
        ),
        ({"resources": [{"name": "rawManifest", "link": "http://example.com/x.yaml"}]}, "no https address"),
    ],
)
def test_template_that_can_not_be_meant_is_refused(changed: dict[str, Any], text: str) -> None:
    objection = objection_to_template(template(**changed), NOTHING)
    assert objection is not None
    assert text in objection


def test_template_is_named_by_module_and_version() -> None:
    objection = objection_to_template(template("orchard-1.0.0"), NOTHING)
    assert objection == "metadata.name is 'orchard-1.0.0'; it has to be 'garden-1.0.0'"


def test_channel_of_a_module_belongs_to_one_template() -> None:
    one = builders.template("garden", channel="fast")
    other = msgspec.structs.replace(one, metadata=msgspec.structs.replace(one.metadata, name="garden-quick"))
    offer = Offer.of((one,), ())
    assert objection_to_template(one, offer) is None
    objection = objection_to_template(other, offer)
    assert objection is not None
    assert "garden-fast has the channel fast" in objection


def test_release_of_a_version_that_is_not_there_is_warned_of() -> None:
    release = builders.release("garden", regular="1.0.0", fast="1.1.0")
    assert warnings_about_release(release, Offer.of((template(),), ())) == ("there is no ModuleTemplate garden-1.1.0",)
    mandatory = builders.release("garden", mandatory="2.0.0")
    assert warnings_about_release(mandatory, NOTHING) == ("there is no ModuleTemplate garden-2.0.0",)
