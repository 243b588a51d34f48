"""What a channel gives clusters: a version, and what its ModuleTemplate installs."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace as with_fields

from lifecycle_manager.module_catalog.manifests import wanted_manifest
from lifecycle_manager.module_catalog.offer import Offer
from lifecycle_manager.rollout.target import MANDATORY_CHANNEL, RolloutTarget, changed_clusters, targets_of
from lifecycle_manager_api import CustomResourcePolicy, Manifest, ModuleTemplate
from tests import builders

MODULE = "keda"
DATA: dict[str, Any] = {
    "apiVersion": "operator.kyma-project.io/v1alpha1",
    "kind": "Keda",
    "metadata": {"name": "default"},
}
CHANGED = {**DATA, "spec": {"replicas": 2}}


def offer_of(*templates: ModuleTemplate, mandatory: str = "") -> Offer:
    released = builders.release(MODULE, mandatory=mandatory) if mandatory else builders.release(MODULE, regular="1.0.0")
    return Offer.of(templates, [released])


def template(version: str = "1.0.0", data: dict[str, Any] = DATA) -> ModuleTemplate:
    return builders.template(MODULE, version, data=data, installs=True)


def installed(policy: CustomResourcePolicy = "CreateAndDelete", *, mandatory: bool = False) -> Manifest:
    offer, known = offer_of(template()), template()
    found = wanted_manifest(
        builders.kyma(),
        known,
        offer.component(known),
        default_cr=offer.default_cr(known),
        channel="" if mandatory else "regular",
        policy=policy,
        mandatory=mandatory,
    )
    assert found is not None
    return found


def target(*templates: ModuleTemplate, channel: str = "regular", mandatory: str = "") -> RolloutTarget:
    return targets_of(offer_of(*templates, mandatory=mandatory))[MODULE][channel]


def test_cluster_has_what_its_template_installs_and_not_what_it_became() -> None:
    before, after = target(template()), target(template(data=CHANGED))
    assert before.content != after.content
    assert (before.is_in(installed()), after.is_in(installed())) == (True, False)
    assert after.is_in(installed("Ignore")), "the default Module CR is not installed there"


def test_another_format_of_the_same_template_is_no_change() -> None:
    manifest = installed()
    resource = msgspec.Raw(msgspec.json.format(bytes(manifest.spec.resource), indent=2))
    assert target(template()).is_in(with_fields(manifest, spec=with_fields(manifest.spec, resource=resource)))


def test_version_counts_alone_while_the_template_or_its_descriptor_is_unknown() -> None:
    unknown = msgspec.structs.replace(template(), spec=with_fields(template().spec, descriptor=msgspec.Raw(b"{}")))
    for each in (target(), target(unknown)):
        assert (each.version, each.content) == ("1.0.0", "")
        assert each.is_in(installed())


@pytest.mark.parametrize("is_configured", [True, False])
def test_template_that_leaves_all_to_its_manager_changes_all_that_have_objects(is_configured: bool) -> None:
    """Their Manifests are deleted; without a manager it is empty by mistake, and what is installed stays."""
    empty = builders.template(MODULE, "1.0.0", enable_module_config=is_configured)
    assert target(empty).is_in(installed()) != is_configured
    assert bool(target(empty).content) == is_configured
    assert target(empty, channel=MANDATORY_CHANNEL, mandatory="1.0.0").is_in(installed(mandatory=True))


@pytest.mark.parametrize(("version", "changed"), [("1.0.0", 0), ("2.0.0", 1), ("0.9.0", 1)])
def test_mandatory_module_is_changed_by_any_other_version(version: str, changed: int) -> None:
    known = target(template(version), channel=MANDATORY_CHANNEL, mandatory=version)
    assert changed_clusters({MANDATORY_CHANNEL: known}, [installed(mandatory=True)], ()) == changed
