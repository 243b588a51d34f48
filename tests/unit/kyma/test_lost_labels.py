"""An operator removes labels of a Manifest: it gets them again, and no module is uninstalled for the lack of them."""

from typing import Any

import msgspec
import pytest

from kube_runtime import ClusterUnreachable
from lifecycle_manager.contract.indexes import MANIFESTS_BY_KYMA
from lifecycle_manager.kyma.snapshot import SkrView
from lifecycle_manager.kyma.wanted import ApplyManifest, DeleteManifest, wanted_of
from lifecycle_manager.mandatory_modules.rules import changes_of
from lifecycle_manager.mandatory_modules.snapshot import InstallationSnapshot
from lifecycle_manager.module_catalog.manifests import kyma_of_manifest
from lifecycle_manager.module_catalog.offer import Offer
from lifecycle_manager.module_catalog.writing import named_apart
from lifecycle_manager_api import Manifest, names
from tests import builders
from tests.unit.kyma.planning import planned, snapshot
from tests.unit.kyma.test_rules import INSTALLING, REQUESTED, introduced, skr_kyma

OWNER = {"apiVersion": "operator.kyma-project.io/v1beta2", "kind": "Kyma", "name": "demo", "uid": "u"}
MANDATORY = Offer.of([builders.template("warden", "1.0.0", installs=True, mandatory=True)], [])


def without(manifest: Manifest, *labels: str) -> Manifest:
    kept = {key: value for key, value in manifest.metadata.labels.items() if key not in labels}
    return msgspec.structs.replace(manifest, metadata=msgspec.structs.replace(manifest.metadata, labels=kept))


@pytest.mark.parametrize("requested", [REQUESTED, []])
@pytest.mark.parametrize("is_listed", [True, False])
def test_manifest_without_its_module_is_written_again_or_removed_as_before(
    requested: list[Any], *, is_listed: bool
) -> None:
    manifest = without(builders.manifest(), names.MODULE_NAME)
    shown = builders.module_status("cloud-resources", manifest={"metadata": {"name": manifest.metadata.name}})
    kyma = introduced(status={"state": "Ready", "modules": [shown] if is_listed else []})
    inner = skr_kyma(kyma, modules=requested)
    seen = snapshot(kyma, SkrView(inner), INSTALLING, manifests=(manifest,))
    changes = wanted_of(seen, inner.spec).changes
    if requested:
        (change,) = changes
        assert isinstance(change, ApplyManifest)
        assert named_apart(change.manifest, manifest).metadata.name == manifest.metadata.name
    elif is_listed:
        assert changes == (DeleteManifest(manifest.metadata.name, by_users=True),)
    else:
        assert changes == ()  # nobody knows what it is
    names_shown = [each.name for each in planned(seen).status.modules]
    assert names_shown == (["cloud-resources"] if requested or is_listed else [])


def test_manifest_without_its_kyma_belongs_to_its_owner() -> None:
    lost = without(builders.manifest(ownerReferences=[OWNER]), names.KYMA_NAME)
    assert [*MANIFESTS_BY_KYMA.values(lost)] == [kyma_of_manifest(lost)] == ["demo"]
    assert not kyma_of_manifest(without(builders.manifest(), names.KYMA_NAME))


def test_manifest_that_says_nothing_is_written_again_and_one_of_others_is_not() -> None:
    wanted, of_others = builders.manifest("cee", kyma="a-bee"), builders.manifest("bee-cee", kyma="a")
    every = (names.KYMA_NAME, names.MODULE_NAME)
    assert named_apart(wanted, without(wanted, *every)) == wanted
    for label in every:
        assert named_apart(wanted, without(wanted, label)) == wanted
        assert named_apart(wanted, without(of_others, label)) != wanted


@pytest.mark.parametrize(
    "labels",
    [[names.MODULE_NAME], [names.MANDATORY_MODULE], [names.MODULE_NAME, names.MANDATORY_MODULE]],
)
def test_mandatory_module_is_not_removed_for_lost_labels(labels: list[str]) -> None:
    manifest = without(builders.manifest("warden", "1.0.0", mandatory=True), *labels)
    kyma = introduced(status={"conditions": [builders.condition("SKRReachable", "Reachable", status="True")]})
    inner = skr_kyma(kyma)
    seen = snapshot(kyma, SkrView(inner), MANDATORY, manifests=(manifest,))
    assert wanted_of(seen, inner.spec).changes == ()
    changes = changes_of(InstallationSnapshot(kyma=kyma, offer=MANDATORY, manifests=(manifest,)))
    assert not changes.delete
    assert [each.metadata.name for each in changes.apply] == [manifest.metadata.name]


def test_unreachable_cluster_lists_no_module_without_a_name() -> None:
    manifest = without(builders.manifest(), names.MODULE_NAME)
    seen = snapshot(introduced(), ClusterUnreachable("no answer"), INSTALLING, manifests=(manifest,))
    assert planned(seen).status.modules == ()
