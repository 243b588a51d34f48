"""What admission reports about a ModuleTemplate or a ModuleReleaseMeta."""

from typing import Any

import msgspec
import pytest

from lifecycle_manager.module_catalog.offer import Offer
from lifecycle_manager.module_catalog.validation import release_warnings, template_error, template_warnings
from lifecycle_manager_api import ModuleTemplate
from tests import builders

NOTHING = Offer.of((), ())


def template(name: str = "garden-1.0.0", **changed: Any) -> ModuleTemplate:
    document = msgspec.json.decode(msgspec.json.encode(builders.template("garden", "1.0.0")))
    document["metadata"]["name"] = name
    document["spec"] |= changed
    return msgspec.json.decode(msgspec.json.encode(document), type=ModuleTemplate)


def test_template_that_can_be_offered_has_no_error() -> None:
    manager = {"group": "apps", "version": "v1", "kind": "Deployment", "name": "garden", "namespace": "kyma-system"}
    check = {"jsonPath": "status.health", "value": "green", "mappedState": "Ready"}
    of_condition = check | {"jsonPath": ".status.conditions[0].status"}
    assert template_error(template(), NOTHING) is None
    assert template_error(template(manager=manager, customStateCheck=[check, of_condition]), NOTHING) is None
    assert template_error(builders.template("garden", channel="fast"), NOTHING) is None


V3 = {"apiVersion": "ocm.software/v3alpha1", "metadata": {"name": "kyma-project.io/module/garden", "version": "1.0.0"}}
V2 = {"name": "kyma-project.io/module/garden", "version": "1.0.0"}


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"descriptor": {"component": V2 | {"resources": 7}}}, "resources of spec.descriptor is not a list"),
        (
            {"descriptor": {"component": V2 | {"repositoryContexts": True}}},
            "repositoryContexts of spec.descriptor is not",
        ),
        ({"descriptor": V3 | {"spec": ["raw-manifest"]}}, "spec.descriptor.spec is missing"),
        ({"descriptor": V3 | {"spec": {"resources": "raw-manifest"}}}, "resources of spec.descriptor is not a list"),
        ({"descriptor": {"kind": "Pod"}}, "spec.descriptor.component is missing"),
        ({"descriptor": "text"}, "spec.descriptor is not an object"),
        ({"version": "1.0.1"}, "spec.version is 1.0.1"),
        ({"moduleName": "zzz"}, "metadata.name is that of module 'garden', and spec.moduleName is 'zzz'"),
        (
            {"descriptor": V3 | {"component": V2}},
            "has both component, of the schema v2, and apiVersion, of v3alpha1; keep one of the schemas",
        ),
        ({"data": {"spec": {}}}, "spec.data is not a Kubernetes object"),
        (
            {"customStateCheck": [{"jsonPath": "status.conditions[?(@.type", "value": "x", "mappedState": "Ready"}]},
            "spec.customStateCheck[0].jsonPath 'status.conditions[?(@.type' is not a path of names and indexes",
        ),
        ({"data": [1]}, "spec.data is not a Kubernetes object"),
        (
            {"data": {"apiVersion": "v1", "kind": "Secret"}},
            "Secret of the core group is a kind of Kubernetes",
        ),
        ({"data": {"apiVersion": "operator.kyma-project.io/v1", "kind": "kyma"}}, "is a kind of the Lifecycle Manager"),
        ({"data": {"apiVersion": "a.b/../../api/v1", "kind": "Secret"}}, "are those of no CRD"),
        (
            {"customStateCheck": [{"jsonPath": "a", "value": "b", "mappedState": "Unmanaged"}]},
            "'Unmanaged' is not a state of a module",
        ),
        ({"resources": [{"name": "rawManifest", "link": "http://example.com/x.yaml"}]}, "must be an https address"),
        ({"resources": [{"name": "rawManifest", "link": "https://["}]}, "must be an https address"),
    ],
)
def test_invalid_template_is_rejected_with_the_field(changed: dict[str, Any], text: str) -> None:
    error = template_error(template(**changed), NOTHING)
    assert error is not None
    assert text in error


@pytest.mark.parametrize(("group", "kind"), [("apps", "Deployment"), ("", "Service"), ("example.com", "Garden")])
def test_manager_needs_no_namespace(group: str, kind: str) -> None:
    """It is then looked for among the objects of the module; keda, serverless and warden leave it out."""
    manager = {"group": group, "version": "v1", "kind": kind, "name": "garden"}
    assert template_error(template(manager=manager), NOTHING) is None
    assert template_warnings(template(manager=manager), NOTHING) == template_warnings(template(), NOTHING)


def test_name_of_a_template_is_module_and_version() -> None:
    error = template_error(template("for-all"), NOTHING)
    assert error == "metadata.name is 'for-all'; it must be 'garden-1.0.0'"
    error = template_error(template("orchard-1.0.0"), NOTHING) or ""
    assert "metadata.name is that of module 'orchard', and spec.moduleName is 'garden'" in error


def test_template_that_is_being_deleted_may_lose_its_finalizers_whatever_is_in_it() -> None:
    leaving = builders.template("garden", "1.0.0", name="orchard-1.0.0", deletionTimestamp="2026-11-01T12:00:00Z")
    assert template_error(template("orchard-1.0.0"), NOTHING) is not None
    assert template_error(leaving, NOTHING) is None


def test_channel_of_a_module_has_one_template() -> None:
    one = builders.template("garden", channel="fast")
    other = msgspec.structs.replace(one, metadata=msgspec.structs.replace(one.metadata, name="garden-quick"))
    offer = Offer.of((one,), ())
    assert template_error(one, offer) is None
    error = template_error(other, offer)
    assert error is not None
    assert "garden-fast already has the channel fast" in error


def test_release_of_a_version_without_template_is_warned_about() -> None:
    release = builders.release("garden", regular="1.0.0", fast="1.1.0")
    assert release_warnings(release, Offer.of((template(),), ())) == ("there is no ModuleTemplate garden-1.1.0",)
    mandatory = builders.release("garden", mandatory="2.0.0")
    assert release_warnings(mandatory, NOTHING) == ("there is no ModuleTemplate garden-2.0.0",)


def test_kind_that_another_module_has_is_a_warning_that_names_it() -> None:
    data = {"apiVersion": "operator.example.com/v1", "kind": "Sample"}
    other = builders.template("another", "1.0.0", data=data | {"apiVersion": "operator.example.com/v1beta1"})
    (warning,) = template_warnings(template(data=data), Offer.of((other, template(data=data)), ()))
    assert "Sample of operator.example.com is the kind of module another, too" in warning
    assert template_warnings(template(), Offer.of((other,), ())) == ()
