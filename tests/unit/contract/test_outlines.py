"""What is counted over the whole fleet is the same of an outline as of the object."""

from datetime import datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some
from msgspec.structs import replace

from kube_runtime import Resource
from kube_runtime.informer.outlines import Outlines
from lifecycle_manager.contract.conditions import has_webhook, was_reached
from lifecycle_manager.contract.indexes import (
    BY_RUNTIME,
    MANIFESTS_BY_KYMA,
    MODULE_CONFIGS_BY_KYMA,
    SYNC_RESOURCES_BY_KYMA,
)
from lifecycle_manager.contract.outlines import OUTLINES
from lifecycle_manager.contract.resources import KYMAS, MANIFESTS, MODULE_CONFIGS, SECRETS, SYNC_RESOURCES, Secret
from lifecycle_manager.contract.watchers import recorded_watchers
from lifecycle_manager.module_catalog import is_mandatory_manifest
from lifecycle_manager.module_rollouts.snapshot import MANIFESTS_BY_CHANNEL, cluster_of
from lifecycle_manager.rollout.change_brake import MANIFESTS_BY_MODULE, changes
from lifecycle_manager.rollout.target import RolloutTarget
from lifecycle_manager.skr.access import access_index
from lifecycle_manager.skr.deletion_brake import is_emptied
from lifecycle_manager.skr.revocation import revoked_before
from lifecycle_manager_api import Kyma, Manifest, ModuleRollout, ObjectMeta, names
from tests import builders

TIME = "2026-11-01T12:00:00Z"
STATES = some.sampled_from(["Ready", "Error", "Processing", "Deleting"])
VERSIONS = some.sampled_from(["1.0.0", "1.1.0", "2.0.0"])
CONDITIONS = some.lists(
    some.fixed_dictionaries(
        {
            "type": some.sampled_from(["SKRReachable", "SKRWebhook", "Modules", "Ready", "Resources", "Installation"]),
            "status": some.sampled_from(["True", "False", "Unknown"]),
            "reason": some.sampled_from(["Reachable", "WatcherReady", "NoEvents", "ModuleReady", "Applied"]),
            "message": some.just("a message"),
            "lastTransitionTime": some.just(TIME),
        }
    ),
    unique_by=lambda each: str(each["type"]),
)
MARKS = some.dictionaries(
    some.sampled_from([names.SKIP_RECONCILIATION, names.IS_UNMANAGED, names.REVOKED_BEFORE, names.PAUSED_AT]),
    some.sampled_from(["true", TIME]),
)


@some.composite
def kymas(draw: some.DrawFn) -> Kyma:
    module = {"name": "api", "state": "Ready", "availableVersion": draw(some.sampled_from(["", "1.1.0"]))}
    status = {
        "state": draw(STATES),
        "conditions": draw(CONDITIONS),
        "modules": [module],
        "skipMaintenanceWindows": draw(some.booleans()),
    }
    records = draw(some.sampled_from([{}, {"kymaCrd": "a", "watcher": "b/c", "trust": "d"}]))
    return builders.kyma("one", status=status, records=records, labels=draw(MARKS), annotations=draw(MARKS))


@some.composite
def manifests(draw: some.DrawFn) -> Manifest:
    version = draw(VERSIONS)
    release = {"version": draw(VERSIONS), "rollout": "api-fast-1", "at": TIME}
    status = {
        "state": draw(STATES),
        "conditions": draw(CONDITIONS),
        "observedGeneration": draw(some.sampled_from([0, 1])),
        "synced": [{"group": "", "version": "v1", "kind": "ConfigMap", "namespace": "default", "name": "one"}],
        **draw(some.sampled_from([{}, {"release": release}, {"readyVersion": {"version": version, "since": TIME}}])),
    }
    return builders.manifest("api", kyma="one", version=version, status=status, annotations=draw(MARKS))


def outline_of(resource: Resource[Any], item: Any) -> Any:
    outline = OUTLINES[resource]
    found = outline.of(item)
    assert outline.owner(found) == outline.owner(item)
    for identity in (resource.key_of, resource.version_of, resource.uid_of):
        assert identity(found) == identity(item)
    return found


ROLLOUT = msgspec.convert(
    {
        "metadata": {"name": "api-fast-1"},
        "spec": {"moduleName": "api", "channel": "fast", "version": "1.1.0", "strategy": {"waves": []}},
    },
    ModuleRollout,
)


@given(kymas(), manifests(), VERSIONS)
def test_rollouts_and_brakes_count_outlines_as_the_objects(kyma: Kyma, manifest: Manifest, version: str) -> None:
    target, since = RolloutTarget(version), datetime.fromisoformat(TIME)
    cut_kyma, cut = outline_of(KYMAS, kyma), outline_of(MANIFESTS, manifest)
    for at in (None, since):
        counted = cluster_of(ROLLOUT, kyma, manifest, target=target, since=at)
        assert cluster_of(ROLLOUT, cut_kyma, cut, target=target, since=at) == counted
    assert changes(cut, target, ()) == changes(manifest, target, ())
    assert is_mandatory_manifest(cut) == is_mandatory_manifest(manifest)
    for index in (MANIFESTS_BY_KYMA, MANIFESTS_BY_MODULE, MANIFESTS_BY_CHANNEL):
        assert [*index.values(cut)] == [*index.values(manifest)]


@given(kymas())
def test_watchers_and_rotations_count_outlines_as_the_kymas(kyma: Kyma) -> None:
    cut = outline_of(KYMAS, kyma)
    for rule in (was_reached, has_webhook, recorded_watchers, revoked_before, BY_RUNTIME.values):
        assert rule(cut) == rule(kyma)
    assert cut.status.records == kyma.status.records
    assert cut.metadata.is_paused == kyma.metadata.is_paused


def test_texts_are_not_in_outlines() -> None:
    text = "kind: ConfigMap\nmetadata: {name: one}\n"
    config = builders.module_config("one", kyma="one", module="api", spec={"resource": text})
    resource = builders.sync_resource("one", kyma="one", module="api", text=text)
    for kind, item, index in (
        (MODULE_CONFIGS, config, MODULE_CONFIGS_BY_KYMA),
        (SYNC_RESOURCES, resource, SYNC_RESOURCES_BY_KYMA),
    ):
        cut = outline_of(kind, item)
        assert len(cut.spec.resource) < len("ConfigMap")
        assert (cut.spec.module, [*index.values(cut)]) == ("api", ["one"])


@pytest.mark.parametrize("text", ["", "# no", "kind: ConfigMap\nmetadata: {name: one}\n"])
@pytest.mark.parametrize("synced", [[], [{"group": "", "version": "v1", "kind": "ConfigMap", "name": "one"}]])
def test_brake_counts_emptied_texts_of_other_replicas(text: str, synced: list[dict[str, str]]) -> None:
    status = {"synced": [{**each, "namespace": "default"} for each in synced]}
    resource = builders.sync_resource("one", kyma="one", module="api", text=text, status=status)
    assert (
        is_emptied(outline_of(SYNC_RESOURCES, resource))
        == is_emptied(resource)
        == (bool(synced) and "kind" not in text)
    )


def test_equal_parts_of_outlines_are_kept_once() -> None:
    marks, conditions = {names.IS_UNMANAGED: "true"}, [condition("SKRReachable"), condition("Ready")]
    status = {"state": "Ready", "conditions": conditions}
    manifests = (builders.manifest("api", kyma=kyma, annotations=marks, status=status) for kyma in ("one", "two"))
    first, second = kept(MANIFESTS, *manifests)
    assert first.spec is second.spec
    assert first.status is second.status
    assert first.metadata.annotations is second.metadata.annotations
    assert first.metadata.labels[names.MODULE_NAME] is second.metadata.labels[names.MODULE_NAME]
    one, two = kept(KYMAS, *(builders.kyma(name, status=status, annotations=marks) for name in ("one", "two")))
    assert one.spec is two.spec
    assert one.status.conditions is two.status.conditions
    assert one.metadata.annotations is two.metadata.annotations


def condition(kind: str) -> dict[str, str]:
    return {"type": kind, "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": TIME}


def kept(resource: Resource[Any], *items: Any) -> list[Any]:
    """Return what an informer keeps of objects of another replica as it gets them: each decoded by itself."""
    outlines = Outlines(resource.type, OUTLINES[resource], holds=lambda _: False)
    return [outlines.of(msgspec.json.decode(msgspec.json.encode(each), type=resource.type)) for each in items]


@pytest.mark.parametrize("purpose", ["", "watcher-certificate"])
def test_credentials_are_not_in_outlines(purpose: str) -> None:
    labels = {names.KYMA_NAME: "one"} | ({names.PURPOSE: purpose} if purpose else {})
    secret = Secret(metadata=ObjectMeta(name="one", namespace=names.KCP_NAMESPACE, labels=labels), data={"a": "eA=="})
    outline = OUTLINES[SECRETS]
    cut = outline.of(secret)
    assert (outline.owner(secret), outline.owner(cut), cut.data) == ("one", "one", {})
    assert [*access_index(cut)] == [*access_index(secret)]
    assert outline.owner(replace(secret, metadata=ObjectMeta(name="klm-watcher"))) == ""
