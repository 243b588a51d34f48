"""The actions and the status of a Kyma, for what was read in KCP and in the SKR."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from lifecycle_manager.contract.options import PurgeSettings
from lifecycle_manager.kyma import plan as planned
from lifecycle_manager.kyma.limits import MAX_MODULES
from lifecycle_manager.kyma.snapshot import Patience, SkrView, Snapshot
from lifecycle_manager.kyma.status import for_skr
from lifecycle_manager.kyma.wanted import wanted_of
from lifecycle_manager.module_catalog import Offer
from lifecycle_manager.rollout import Timing
from lifecycle_manager.skr import SkrFailure
from lifecycle_manager_api import Kyma, Manifest, State, find, names
from tests import builders


def condition(kind: str, status: str, reason: str) -> dict[str, str]:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": f"{kind} says {reason}",
        "lastTransitionTime": "2026-11-01T12:00:00Z",
    }


WEBHOOK_READY = condition("SKRWebhook", "True", "WatcherReady")
CATALOG_READY = condition("ModuleCatalog", "True", "Synced")
OTHERS_READY = {"conditions": [WEBHOOK_READY, CATALOG_READY]}
OFFER = Offer.of([builders.template()], [builders.release(regular="0.1.0")])
INSTALLING = Offer.of([builders.template(installs=True)], [builders.release(regular="0.1.0")])
REQUESTED = [{"name": "cloud-resources", "managed": True}]
DELETED = "2026-11-01T12:00:00Z"


def snapshot(kyma: Kyma, skr: SkrView | SkrFailure, *, offer: Offer = OFFER, **more: Any) -> Snapshot:
    given = {"patience": Patience(unreachable=timedelta(0))} | more
    return Snapshot(Timing(builders.NOW), kyma, offer, skr, "hash", **given)


def skr_kyma(of: Kyma, **given: Any) -> Kyma:
    """Return the Kyma CR in the SKR as it is once it has been written."""
    labels, annotations = planned.visible_metadata(of)
    return builders.kyma(
        "default",
        **{"labels": labels, "annotations": annotations, "namespace": "kyma-system", "finalizers": []} | given,
    )


def settled(kyma: Kyma, skr: Kyma, **more: Any) -> tuple[Kyma, Kyma]:
    """Return both Kymas after the status was written to both."""
    decided = planned.plan(snapshot(kyma, SkrView(skr), **more))
    (written,) = [action for action in decided.in_kcp if isinstance(action, planned.WriteStatus)]
    return (
        msgspec.structs.replace(kyma, status=written.status),
        msgspec.structs.replace(skr, status=for_skr(written.status, skr)),
    )


def introduced(**given: Any) -> Kyma:
    return builders.kyma(records={"kymaCrd": "hash"}, **given)


def written_in(decided: planned.Plan) -> planned.WriteStatus:
    (written,) = [action for action in decided.in_kcp if isinstance(action, planned.WriteStatus)]
    return written


def test_finalizer_is_set_before_the_skr_is_written() -> None:
    kyma = builders.kyma(finalizers=[])
    assert planned.plan(snapshot(kyma, SkrView(None))) == planned.Plan(in_kcp=(planned.AddFinalizer(),))


def test_new_cluster_gets_crd_and_kyma_with_the_default_modules() -> None:
    kyma = builders.kyma(modules=REQUESTED, labels={names.REGION: "eu", "internal.example/secret": "x"})
    decided = planned.plan(snapshot(kyma, SkrView(None)))
    install, create = decided.in_skr
    assert install == planned.InstallKymaCrd()
    assert isinstance(create, planned.CreateSkrKyma)
    assert create.spec == kyma.spec
    assert create.labels[names.REGION] == "eu"
    assert "internal.example/secret" not in create.labels
    assert decided.in_kcp == ()
    assert decided.at_once
    created = replace(snapshot(kyma, SkrView(skr_kyma(kyma))), installed_crd="hash")
    after = planned.plan(created)
    assert planned.InstallKymaCrd() not in after.in_skr
    assert written_in(after).status.records.kyma_crd == "hash"


def test_users_spec_is_only_read() -> None:
    kyma = introduced(modules=REQUESTED)
    decided = planned.plan(snapshot(kyma, SkrView(skr_kyma(kyma, channel="fast"))))
    assert not any(isinstance(action, planned.CreateSkrKyma) for action in decided.in_skr)
    written = written_in(decided)
    assert written.status.active_channel == "fast"
    assert written.status.modules == ()


def test_unchanged_kyma_needs_no_action() -> None:
    kyma = introduced(status=OTHERS_READY)
    kyma, in_skr = settled(kyma, skr_kyma(kyma, modules=REQUESTED))
    assert planned.plan(snapshot(kyma, SkrView(in_skr))) == planned.Plan()


def test_crd_that_changed_is_applied_again() -> None:
    kyma = builders.kyma(records={"kymaCrd": "older"})
    assert planned.InstallKymaCrd() in planned.plan(snapshot(kyma, SkrView(skr_kyma(kyma)))).in_skr


def test_skr_keeps_its_crd_while_that_of_kcp_can_not_be_read() -> None:
    kyma = builders.kyma(records={"kymaCrd": "older"})
    unseen = replace(snapshot(kyma, SkrView(skr_kyma(kyma))), crd_hash="")
    decided = planned.plan(unseen)
    assert planned.InstallKymaCrd() not in decided.in_skr
    assert written_in(decided).status.records.kyma_crd == "older"


def test_skr_that_lost_its_crd_meanwhile_is_recorded_without_one_of_kcp() -> None:
    kyma = builders.kyma(records={"kymaCrd": "older"})
    unseen = replace(snapshot(kyma, SkrView(None)), crd_hash="")
    assert planned.InstallKymaCrd() in planned.plan(unseen).in_skr
    created = replace(unseen, skr=SkrView(skr_kyma(kyma)), installed_crd="")
    assert written_in(planned.plan(created)).status.records.kyma_crd == ""


def test_label_that_a_user_removed_is_set_again() -> None:
    kyma = introduced()
    bare = msgspec.structs.replace(skr_kyma(kyma), metadata=builders.kyma("default").metadata)
    actions = planned.plan(snapshot(kyma, SkrView(bare))).in_skr
    assert any(isinstance(action, planned.SyncSkrMetadata) for action in actions)


@pytest.mark.parametrize(
    "changed",
    [
        {"labels": {names.REGION: "us"}},
        {"labels": {names.WATCHED_BY: ""}},
        {"annotations": {names.OWNED_BY: "kcp-system/other"}},
    ],
)
def test_label_or_annotation_that_a_user_changed_is_corrected(changed: dict[str, dict[str, str]]) -> None:
    kyma = introduced(labels={names.REGION: "eu"})
    labels, annotations = planned.visible_metadata(kyma)
    given: dict[str, Any] = {
        "labels": {**labels, "mine": "x", **changed.get("labels", {})},
        "annotations": {**annotations, "mine": "x", **changed.get("annotations", {})},
    }
    (sync,) = [
        action
        for action in planned.plan(snapshot(kyma, SkrView(skr_kyma(kyma, **given)))).in_skr
        if isinstance(action, planned.SyncSkrMetadata)
    ]
    assert (sync.labels, sync.annotations) == (labels, annotations)


def test_label_that_was_removed_in_kcp_is_removed_in_the_skr() -> None:
    before = introduced(labels={names.BETA: "true"})
    actions = planned.plan(snapshot(introduced(), SkrView(skr_kyma(before)))).in_skr
    (sync,) = [action for action in actions if isinstance(action, planned.SyncSkrMetadata)]
    assert sync.labels[names.BETA] is None


def test_ready_needs_every_module_the_webhook_and_the_catalog() -> None:
    config = builders.module_config(status={"state": "Ready", "observedGeneration": 1})
    for conditions, state in (
        ([WEBHOOK_READY, CATALOG_READY], State.READY),
        ([CATALOG_READY], State.PROCESSING),
        ([WEBHOOK_READY], State.PROCESSING),
        ([WEBHOOK_READY, condition("ModuleCatalog", "False", "CatalogSyncFailed")], State.WARNING),
        ([condition("SKRWebhook", "False", "WatcherSilent"), CATALOG_READY], State.WARNING),
    ):
        kyma = introduced(status={"conditions": conditions})
        after, _ = settled(kyma, skr_kyma(kyma, modules=REQUESTED), module_configs=(config,))
        assert after.status.state is state
        ready = find(after.status.conditions, "Ready")
        assert ready is not None
        assert (ready.status == "True") is (state is State.READY)


def test_unknown_module_is_reported_and_does_not_delay_others() -> None:
    kyma = introduced(status=OTHERS_READY)
    requested = [*REQUESTED, {"name": "tpyo", "managed": True}]
    in_skr = skr_kyma(kyma, modules=requested)
    decided = planned.plan(snapshot(kyma, SkrView(in_skr)))
    written = written_in(decided)
    states = {module.name: module.state for module in written.status.modules}
    assert states == {"cloud-resources": State.READY, "tpyo": State.WARNING}
    modules = find(written.status.conditions, "Modules")
    assert modules is not None
    assert modules.status == "False"
    assert "tpyo" in modules.message
    (recorded,) = [action for action in decided.in_skr if isinstance(action, planned.WriteSkrStatus)]
    assert [each.reason for each in recorded.events if "tpyo" in each.note] == ["ModuleWarning"]


def test_number_of_requested_modules_is_limited() -> None:
    """No other Kyma is reconciled while one is decided on; modules of the catalog count wherever they are listed."""
    kyma = introduced(status=OTHERS_READY)
    many = [{"name": f"unknown-{number}", "managed": True} for number in range(20_000)]
    seen = SkrView(skr_kyma(kyma, modules=[*many, *REQUESTED]))
    wanted = wanted_of(snapshot(kyma, seen, offer=INSTALLING), seen.kyma.spec if seen.kyma is not None else kyma.spec)
    assert len(wanted.modules) == MAX_MODULES + 1
    assert [each.name for each in wanted.modules if each.to_be_written] == ["cloud-resources"]


def test_modules_of_an_unreachable_cluster_are_errors_and_otherwise_as_they_were() -> None:
    kyma = introduced(status=OTHERS_READY)
    inner = skr_kyma(kyma, modules=REQUESTED)
    kyma, inner = settled(kyma, inner)
    decided = planned.plan(snapshot(kyma, SkrFailure("ClusterUnreachable", "no answer", is_without_access=True)))
    written = written_in(decided)
    assert written.status.state is State.ERROR
    known = [msgspec.structs.replace(each, state=State.ERROR, message="no answer") for each in kyma.status.modules]
    assert [*written.status.modules] == known != []
    again = planned.plan(snapshot(msgspec.structs.replace(kyma, status=written.status), SkrView(inner)))
    assert written_in(again).status.modules == kyma.status.modules
    refused = planned.plan(snapshot(kyma, SkrFailure("SKRForbidden", "no right")))
    assert written_in(refused).status.modules == kyma.status.modules
    reachable = find(written.status.conditions, "SKRReachable")
    assert reachable is not None
    assert (reachable.status, reachable.reason, reachable.message) == ("False", "ClusterUnreachable", "no answer")
    assert decided.in_skr == ()


def test_manifest_is_named_although_the_skr_refused_what_its_users_would_see() -> None:
    """One that no Kyma names counts as orphaned."""
    kyma = introduced(status={**OTHERS_READY, "modules": [{"name": "nats", "state": "Processing"}]})
    manifests = (builders.manifest(), builders.manifest("nats"), builders.manifest("warden", mandatory=True))
    decided = planned.plan(snapshot(kyma, SkrFailure("SKRRequestFailed", "no", may_pass=True), manifests=manifests))
    named = {each.name: each.manifest for each in written_in(decided).status.modules}
    assert {name: each and each.metadata.name for name, each in named.items()} == {
        "nats": "demo-nats",
        "cloud-resources": "demo-cloud-resources",
    }


def test_skr_that_does_not_answer_is_an_error_only_after_its_grace() -> None:
    kyma = introduced(status=OTHERS_READY)
    kyma, _ = settled(kyma, skr_kyma(kyma))
    patience = Patience(unreachable=timedelta(seconds=30))
    away = snapshot(kyma, SkrFailure("ClusterUnreachable", "no answer", may_pass=True), patience=patience)
    first = planned.plan(away)
    assert written_in(first).status.state is State.READY
    assert written_in(first).status.modules == kyma.status.modules
    assert first.again == builders.NOW + timedelta(seconds=30)
    later = replace(
        away,
        kyma=msgspec.structs.replace(kyma, status=written_in(first).status),
        timing=Timing(builders.NOW + timedelta(seconds=31)),
    )
    assert written_in(planned.plan(later)).status.state is State.ERROR


def test_skipped_kyma_needs_no_action_unless_it_is_being_deleted() -> None:
    skipped = builders.kyma(labels={names.SKIP_RECONCILIATION: "true"})
    assert planned.plan(snapshot(skipped, SkrView(None))) == planned.Plan()
    deleting = builders.kyma(labels={names.SKIP_RECONCILIATION: "true"}, deletionTimestamp=DELETED)
    assert planned.RemoveFinalizer() in planned.plan(snapshot(deleting, SkrView(None))).in_kcp


def test_module_that_installs_something_gets_a_manifest() -> None:
    kyma = introduced(status=OTHERS_READY)
    decided = planned.plan(snapshot(kyma, SkrView(skr_kyma(kyma, modules=REQUESTED)), offer=INSTALLING))
    (applied,) = [action for action in decided.in_kcp if isinstance(action, planned.ApplyManifest)]
    manifest = applied.manifest
    assert manifest.metadata.labels[names.KYMA_NAME] == "demo"
    assert manifest.metadata.labels[names.CHANNEL] == "regular"
    assert manifest.spec.version == "0.1.0"
    assert msgspec.json.decode(manifest.spec.install.source) == {
        "name": "kyma-project.io/module/cloud-resources",
        "ref": "sha256:0.1.0",
        "repo": "registry.example.com/modules/component-descriptors",
        "type": "oci-ref",
    }
    (module,) = written_in(decided).status.modules
    assert module.state is State.PROCESSING
    assert module.manifest is not None
    assert module.resource is not None
    assert module.resource.kind == "Infrastructure"


def test_manifest_that_is_as_it_should_be_is_not_written_again() -> None:
    kyma = introduced(status=OTHERS_READY)
    in_skr = SkrView(skr_kyma(kyma, modules=REQUESTED))
    first = planned.plan(snapshot(kyma, in_skr, offer=INSTALLING))
    (applied,) = [action for action in first.in_kcp if isinstance(action, planned.ApplyManifest)]
    second = planned.plan(snapshot(kyma, in_skr, offer=INSTALLING, manifests=(applied.manifest,)))
    assert not any(isinstance(action, planned.ApplyManifest) for action in second.in_kcp)


def test_module_has_the_state_of_its_manifest() -> None:
    kyma = introduced(status=OTHERS_READY)
    in_skr = SkrView(skr_kyma(kyma, modules=REQUESTED))
    (applied,) = [
        action
        for action in planned.plan(snapshot(kyma, in_skr, offer=INSTALLING)).in_kcp
        if isinstance(action, planned.ApplyManifest)
    ]
    for said, state in (("Ready", State.READY), ("Error", State.ERROR), ("Warning", State.WARNING)):
        status = msgspec.convert({"state": said, "lastOperation": {"operation": "why"}}, type(applied.manifest.status))
        manifest = msgspec.structs.replace(applied.manifest, status=status)
        decided = planned.plan(snapshot(kyma, in_skr, offer=INSTALLING, manifests=(manifest,)))
        (module,) = written_in(decided).status.modules
        assert module.state is state
        assert ("why" in module.message) is (state is not State.READY)


def test_module_that_is_not_requested_any_more_is_removed_with_its_manifest() -> None:
    kyma = introduced(status=OTHERS_READY)
    in_skr = SkrView(skr_kyma(kyma))
    there = builders.manifest()
    decided = planned.plan(snapshot(kyma, in_skr, manifests=(there,)))
    assert planned.DeleteManifest("demo-cloud-resources") in decided.in_kcp
    (module,) = written_in(decided).status.modules
    assert module.state is State.DELETING
    going = builders.manifest(deletionTimestamp=DELETED, status={"state": "Warning"})
    later = planned.plan(snapshot(kyma, in_skr, manifests=(going,)))
    assert not any(isinstance(action, planned.DeleteManifest) for action in later.in_kcp)
    assert written_in(later).status.modules[0].state is State.WARNING
    assert written_in(planned.plan(snapshot(kyma, in_skr))).status.modules == ()


RESTRICTED = Offer.of(
    [builders.template(installs=True)],
    [builders.release(regular="0.1.0", spec={"kymaSelector": {"matchLabels": {"team": "a"}}})],
)


def test_module_that_a_kyma_may_no_longer_have_is_removed_although_it_is_requested() -> None:
    kyma = introduced(status=OTHERS_READY)
    manifest = builders.manifest(finalizers=[names.MANIFEST_FINALIZER])
    inner = SkrView(skr_kyma(kyma, modules=REQUESTED))
    decided = planned.plan(snapshot(kyma, inner, offer=RESTRICTED, manifests=(manifest,)))
    assert planned.DeleteManifest(manifest.metadata.name) in decided.in_kcp
    (module,) = written_in(decided).status.modules
    assert (module.state, module.version, module.template) == (State.ERROR, "", None)
    assert "not released for this cluster" in module.message
    assert "ModuleNotForThisCluster" in module.message

    leaving = builders.manifest(finalizers=[names.MANIFEST_FINALIZER], deletionTimestamp=DELETED)
    decided = planned.plan(snapshot(kyma, inner, offer=RESTRICTED, manifests=(leaving,)))
    assert not [each for each in decided.in_kcp if isinstance(each, planned.DeleteManifest | planned.ApplyManifest)]
    (module,) = written_in(decided).status.modules
    assert (module.state, "is being removed" in module.message) == (State.ERROR, True)


def test_restricted_module_stays_where_it_is_unmanaged_or_allowed() -> None:
    manifest = builders.manifest(finalizers=[names.MANIFEST_FINALIZER])
    for labels, managed in (({"team": "a"}, True), ({}, False)):
        kyma = introduced(status=OTHERS_READY, labels=labels)
        inner = SkrView(skr_kyma(kyma, modules=[{"name": "cloud-resources", "managed": managed}]))
        decided = planned.plan(snapshot(kyma, inner, offer=RESTRICTED, manifests=(manifest,)))
        assert not [each for each in decided.in_kcp if isinstance(each, planned.DeleteManifest)]


@pytest.mark.parametrize("restriction", [{"beta": True}, {"internal": True}])
def test_beta_and_internal_modules_stay_installed_when_the_label_of_the_kyma_is_gone(
    restriction: dict[str, Any],
) -> None:
    offer = Offer.of([builders.template(installs=True)], [builders.release(regular="0.1.0", spec=restriction)])
    kyma = introduced(status=OTHERS_READY)
    inner = SkrView(skr_kyma(kyma, modules=REQUESTED))
    decided = planned.plan(snapshot(kyma, inner, offer=offer, manifests=(builders.manifest(),)))
    assert not [each for each in decided.in_kcp if isinstance(each, planned.DeleteManifest)]


def offered(*versions: str, **channels: Any) -> Offer:
    templates = [builders.template(version=version, installs=True) for version in versions]
    return Offer.of(templates, [builders.release(**channels)])


def leaving_versions(decided: planned.Plan) -> list[tuple[str, str]]:
    return [
        (each.manifest.spec.version, each.manifest.metadata.labels[names.CHANNEL])
        for each in decided.in_kcp
        if isinstance(each, planned.UpdateLeavingManifest)
    ]


def going(**given: Any) -> Manifest:
    marks: dict[str, Any] = {"finalizers": [names.MANIFEST_FINALIZER], "deletionTimestamp": DELETED}
    return builders.manifest(**marks | {"uid": "of-the-first"} | given)


@pytest.mark.parametrize(
    ("requested", "offer", "expected"),
    [
        pytest.param([], offered("0.2.0", regular="0.2.0"), [("0.2.0", "regular")], id="next version"),
        pytest.param([], offered("0.0.9", regular="0.0.9"), [], id="lower version"),
        pytest.param([], offered("0.1.0"), [], id="no longer offered"),
        pytest.param(
            [{"name": "cloud-resources", "channel": "fast", "managed": True}],
            offered("0.1.0", "0.3.0", regular="0.1.0", fast="0.3.0"),
            [("0.3.0", "fast")],
            id="enabled again in another channel",
        ),
        pytest.param(
            [{"name": "cloud-resources", "channel": "fast", "managed": True}],
            offered("0.1.0", "0.0.3", regular="0.1.0", fast="0.0.3"),
            [],
            id="enabled again in a channel with a lower version",
        ),
        pytest.param(
            [{"name": "cloud-resources", "managed": False}], offered("0.2.0", regular="0.2.0"), [], id="unmanaged"
        ),
    ],
)
def test_manifest_that_is_being_deleted_gets_the_version_of_its_channel(
    requested: list[dict[str, Any]], offer: Offer, expected: list[tuple[str, str]]
) -> None:
    kyma = introduced(status=OTHERS_READY)
    inner = SkrView(skr_kyma(kyma, modules=requested))
    decided = planned.plan(snapshot(kyma, inner, offer=offer, manifests=(going(),)))
    assert leaving_versions(decided) == expected
    assert not [each for each in decided.in_kcp if isinstance(each, planned.ApplyManifest | planned.DeleteManifest)]


def test_deletion_keeps_the_default_module_cr_and_the_uid_of_its_manifest() -> None:
    kyma = introduced(status=OTHERS_READY)
    ignoring = [{"name": "cloud-resources", "channel": "fast", "customResourcePolicy": "Ignore", "managed": True}]
    inner = SkrView(skr_kyma(kyma, modules=ignoring))
    manifest, offer = going(), offered("0.3.0", fast="0.3.0")
    (updated,) = [
        each.manifest
        for each in planned.plan(snapshot(kyma, inner, offer=offer, manifests=(manifest,))).in_kcp
        if isinstance(each, planned.UpdateLeavingManifest)
    ]
    assert (updated.spec.custom_resource_policy, updated.spec.resource) == ("CreateAndDelete", manifest.spec.resource)
    assert (updated.metadata.name, updated.metadata.uid) == (manifest.metadata.name, "of-the-first")
    metadata = msgspec.structs.replace(updated.metadata, deletion_timestamp=builders.NOW)
    known = msgspec.structs.replace(updated, metadata=metadata)
    assert leaving_versions(planned.plan(snapshot(kyma, inner, offer=offer, manifests=(known,)))) == []


def test_mandatory_module_never_shows_and_is_not_removed() -> None:
    kyma = introduced(status=OTHERS_READY)
    mandatory = builders.manifest("warden", mandatory=True, status={"state": "Error"})
    decided = planned.plan(snapshot(kyma, SkrView(skr_kyma(kyma)), manifests=(mandatory,)))
    assert written_in(decided).status.modules == ()
    assert written_in(decided).status.state is State.READY
    assert not any(isinstance(action, planned.DeleteManifest) for action in decided.in_kcp)


def test_unmanaged_module_keeps_its_manifest_and_comes_back() -> None:
    kyma = introduced(status=OTHERS_READY)
    unmanaged = SkrView(skr_kyma(kyma, modules=[{"name": "cloud-resources", "managed": False}]))
    there = builders.manifest(version="0.0.9", status={"state": "Ready"})
    decided = planned.plan(snapshot(kyma, unmanaged, offer=INSTALLING, manifests=(there,)))
    assert [action for action in decided.in_kcp if isinstance(action, planned.ModuleAction)] == [
        planned.MarkUnmanaged("demo-cloud-resources")
    ]
    (module,) = written_in(decided).status.modules
    assert (module.state, module.version) == (State.UNMANAGED, "0.0.9")
    left = builders.manifest(version="0.0.9", annotations={names.IS_UNMANAGED: "true"})
    again = planned.plan(
        snapshot(kyma, SkrView(skr_kyma(kyma, modules=REQUESTED)), offer=INSTALLING, manifests=(left,))
    )
    (applied,) = [action for action in again.in_kcp if isinstance(action, planned.ModuleAction)]
    assert isinstance(applied, planned.ApplyManifest)
    assert applied.managed_again
    assert applied.manifest.spec.version == "0.1.0"


def test_custom_resource_policy_reaches_the_manifest() -> None:
    kyma = introduced(status=OTHERS_READY)
    requested = [{"name": "cloud-resources", "managed": True, "customResourcePolicy": "Ignore"}]
    decided = planned.plan(
        snapshot(kyma, SkrView(skr_kyma(kyma, modules=requested)), offer=INSTALLING, manifests=(builders.manifest(),))
    )
    (applied,) = [action for action in decided.in_kcp if isinstance(action, planned.ApplyManifest)]
    assert applied.manifest.spec.custom_resource_policy == "Ignore"
    assert msgspec.json.decode(applied.manifest.spec.resource) is None


def test_unreadable_descriptor_is_reported_and_the_manifest_stays() -> None:
    broken = builders.template(installs=True)
    spec = msgspec.structs.replace(broken.spec, descriptor=msgspec.Raw(b'{"component": {}}'))
    offer = Offer.of([msgspec.structs.replace(broken, spec=spec)], [builders.release(regular="0.1.0")])
    kyma = introduced(status=OTHERS_READY)
    decided = planned.plan(
        snapshot(
            kyma,
            SkrView(skr_kyma(kyma, modules=REQUESTED)),
            offer=offer,
            manifests=(builders.manifest(version="0.0.9"),),
        )
    )
    (module,) = written_in(decided).status.modules
    assert module.state is State.ERROR
    assert "spec.descriptor.component.name is missing" in module.message
    assert not any(isinstance(action, planned.ModuleAction) for action in decided.in_kcp)


def test_module_that_installs_nothing_stays_as_it_is_while_its_descriptor_is_not_found() -> None:
    kyma = introduced(status=OTHERS_READY)
    kyma, inner = settled(kyma, skr_kyma(kyma, modules=REQUESTED))
    offer = replace(OFFER, problems={"cloud-resources-0.1.0": "the registry is on fire"})
    assert planned.plan(snapshot(kyma, SkrView(inner), offer=offer)).in_kcp == ()


def test_version_that_could_not_be_installed_does_not_block_another_one() -> None:
    """Neither a lower version nor one that waits for its turn or a downtime: there is nothing yet to go back from."""
    broken = builders.template(version="0.2.0", installs=True)
    spec = msgspec.structs.replace(broken.spec, descriptor=msgspec.Raw(b'{"component": {}}'))
    templates = [msgspec.structs.replace(broken, spec=spec), builders.template(installs=True)]
    kyma = introduced(status=OTHERS_READY)
    seen = SkrView(skr_kyma(kyma, modules=REQUESTED))
    first = planned.plan(snapshot(kyma, seen, offer=Offer.of(templates, [builders.release(regular="0.2.0")])))
    (module,) = written_in(first).status.modules
    assert (module.state, module.version) == (State.ERROR, "0.2.0")
    kyma = msgspec.structs.replace(kyma, status=written_in(first).status)
    mended = planned.plan(snapshot(kyma, seen, offer=Offer.of(templates, [builders.release(regular="0.1.0")])))
    (applied,) = [action for action in mended.in_kcp if isinstance(action, planned.ApplyManifest)]
    assert applied.manifest.spec.version == "0.1.0"


def test_module_that_is_installed_needs_no_descriptor_to_stay_as_it_is() -> None:
    """The registry can't be reached when a process begins: nothing is wrong with what the clusters have."""
    kyma = introduced(status=OTHERS_READY)
    (manifest,) = (builders.manifest(version="0.1.0"),)
    offer = replace(INSTALLING, problems={"cloud-resources-0.1.0": "the registry is on fire"})
    seen = SkrView(skr_kyma(kyma, modules=REQUESTED))
    decided = planned.plan(snapshot(kyma, seen, offer=offer, manifests=(manifest,)))
    (module,) = written_in(decided).status.modules
    assert module.state is not State.ERROR
    assert not any(isinstance(action, planned.ModuleAction) for action in decided.in_kcp)
    older = (builders.manifest(version="0.0.9"),)
    (module,) = written_in(planned.plan(snapshot(kyma, seen, offer=offer, manifests=older))).status.modules
    assert (module.state, "on fire" in module.message) == (State.ERROR, True)


def test_deletion_has_the_order_that_leaves_no_objects() -> None:
    """Manifests, configurations, the Watcher, the catalog, the users' CR: each step waits for the one before."""
    kyma = introduced(status=OTHERS_READY, deletionTimestamp=DELETED)
    there = snapshot(
        kyma,
        SkrView(skr_kyma(kyma)),
        manifests=(builders.manifest(), builders.manifest("warden", mandatory=True)),
        module_configs=(builders.module_config(),),
        sync_resources=(builders.sync_resource("left"),),
    )
    first = planned.plan(there)
    assert {action.manifest for action in first.in_kcp if isinstance(action, planned.DeleteManifest)} == {
        "demo-cloud-resources",
        "demo-warden",
    }
    assert [module.name for module in written_in(first).status.modules] == ["cloud-resources"]
    assert "module cloud-resources" in operation(first)

    assert first.again == builders.NOW + timedelta(minutes=10)  # then it is stuck

    second = planned.plan(replace(there, manifests=()))
    assert written_in(second).status.modules == ()
    assert operation(second) == "waits for a Module CR of cloud-resources, the objects of module cloud-resources"
    assert not any(isinstance(action, planned.DeleteSyncResource) for action in second.in_kcp)

    for decided in (first, second):  # or the Watcher would leave before what it serves
        removing = find(written_in(decided).status.conditions, "Modules")
        assert removing is not None
        assert removing.reason == "Removing"

    third = planned.plan(replace(there, manifests=(), module_configs=()))
    assert planned.DeleteSyncResource("left", names.KCP_NAMESPACE) in third.in_kcp

    modules_gone = replace(there, manifests=(), module_configs=(), sync_resources=())
    fourth = planned.plan(modules_gone)
    modules = find(written_in(fourth).status.conditions, "Modules")
    assert modules is not None
    assert modules.reason == "ModulesRemoved"
    assert not any(isinstance(action, planned.DeleteSkrKyma) for action in fourth.in_skr)

    gone = {"conditions": [condition(kind, "False", "Removed") for kind in ("SKRWebhook", "ModuleCatalog")]}
    left = introduced(status=gone, deletionTimestamp=DELETED)
    fifth = planned.plan(replace(modules_gone, kyma=left))
    assert fifth.in_skr == (planned.DeleteSkrKyma(),)
    assert planned.RemoveFinalizer() not in fifth.in_kcp

    last = planned.plan(replace(modules_gone, kyma=left, skr=SkrView(None)))
    assert last == planned.Plan(in_skr=(planned.RemoveKymaCrd(),), in_kcp=(planned.RemoveFinalizer(),))


def operation(decided: planned.Plan) -> str:
    last = written_in(decided).status.last_operation
    assert last is not None
    return last.operation


def test_deletion_without_progress_is_a_warning_that_names_what_it_waits_for() -> None:
    kyma = introduced(deletionTimestamp="2026-11-01T11:49:00Z")
    stuck = snapshot(kyma, SkrView(skr_kyma(kyma)), manifests=(builders.manifest(deletionTimestamp=DELETED),))
    decided = planned.plan(stuck)
    assert written_in(decided).status.state is State.WARNING
    assert "module cloud-resources" in operation(decided)
    assert not any(isinstance(action, planned.PurgeFinalizers) for action in decided.in_skr)
    purging = planned.plan(
        replace(stuck, patience=Patience(purging=PurgeSettings(enabled=True, timeout=timedelta(minutes=5))))
    )
    assert planned.PurgeFinalizers(stuck.manifests) in purging.in_skr
    on_time = planned.plan(
        replace(stuck, patience=Patience(purging=PurgeSettings(enabled=True, timeout=timedelta(minutes=11))))
    )
    assert planned.PurgeFinalizers(stuck.manifests) in on_time.in_skr
    patient = planned.plan(
        replace(stuck, patience=Patience(purging=PurgeSettings(enabled=True, timeout=timedelta(minutes=12))))
    )
    assert not any(isinstance(action, planned.PurgeFinalizers) for action in patient.in_skr)
    assert patient.again == builders.NOW + timedelta(minutes=1)
    away = replace(
        stuck,
        skr=SkrFailure("ClusterUnreachable", ""),
        patience=Patience(purging=PurgeSettings(enabled=True, timeout=timedelta(0))),
    )
    assert planned.plan(away).in_skr == ()


def test_objects_of_sync_resources_are_purged_like_those_of_modules() -> None:
    kyma = introduced(deletionTimestamp="2026-11-01T11:49:00Z")
    held = (builders.sync_resource("held", deletionTimestamp=DELETED),)
    stuck = snapshot(kyma, SkrView(skr_kyma(kyma)), sync_resources=held)
    assert not any(isinstance(action, planned.PurgeFinalizers) for action in planned.plan(stuck).in_skr)
    purging = planned.plan(
        replace(stuck, patience=Patience(purging=PurgeSettings(enabled=True, timeout=timedelta(minutes=5))))
    )
    assert planned.PurgeFinalizers(held) in purging.in_skr


def test_users_see_that_their_kyma_is_being_deleted_and_what_it_waits_for() -> None:
    kyma = introduced(deletionTimestamp=DELETED)
    inner = skr_kyma(kyma)
    decided = planned.plan(snapshot(kyma, SkrView(inner), manifests=(builders.manifest(),)))
    (shown,) = [action.status for action in decided.in_skr if isinstance(action, planned.WriteSkrStatus)]
    assert shown.state is State.DELETING
    assert shown.last_operation is not None
    assert shown.last_operation.operation == "waits for module cloud-resources"
    again = planned.plan(
        snapshot(
            msgspec.structs.replace(kyma, status=written_in(decided).status),
            SkrView(msgspec.structs.replace(inner, status=shown)),
            manifests=(builders.manifest(deletionTimestamp=DELETED),),
        )
    )
    assert again.in_skr == ()


def test_deletion_continues_without_the_skr_only_where_its_secret_is_gone() -> None:
    kyma = introduced(status=OTHERS_READY, deletionTimestamp=DELETED)
    gone = planned.plan(snapshot(kyma, SkrFailure("AccessSecretMissing", "no Secret")))
    assert gone.in_kcp == (planned.RemoveFinalizer(),)
    patience = Patience(others_finalizers=True)
    abandoned = snapshot(kyma, SkrFailure("AccessSecretMissing", "no Secret"), patience=patience)
    assert planned.plan(abandoned).in_kcp == (planned.RemoveFinalizer(of_others=True),)
    metadata = msgspec.structs.replace(kyma.metadata, finalizers=("example.com/observer",))
    left = replace(abandoned, kyma=msgspec.structs.replace(kyma, metadata=metadata))
    assert planned.plan(left).in_kcp == (planned.RemoveFinalizer(of_others=True),)
    assert planned.plan(replace(left, patience=Patience())) == planned.Plan()
    claimed = snapshot(kyma, SkrFailure("SKRClaimed", "another Kyma's"), patience=patience)
    assert planned.plan(claimed).in_kcp == (planned.RemoveFinalizer(),)
    away = planned.plan(snapshot(introduced(deletionTimestamp=DELETED), SkrFailure("ClusterUnreachable", "")))
    assert planned.RemoveFinalizer() not in away.in_kcp


def test_own_finalizer_is_removed_from_a_kyma_cr_that_a_user_deletes() -> None:
    kyma = introduced(status=OTHERS_READY)
    going = skr_kyma(kyma, finalizers=[names.KYMA_FINALIZER], deletionTimestamp=DELETED)
    decided = planned.plan(snapshot(kyma, SkrView(going)))
    assert decided.in_skr == (planned.RemoveSkrFinalizer(),)
    assert decided.at_once


def test_kyma_cr_with_a_finalizer_of_others_is_not_read_again_sooner() -> None:
    kyma = introduced(status=OTHERS_READY)
    held = skr_kyma(kyma, finalizers=[names.KYMA_FINALIZER])
    by_another = skr_kyma(kyma, finalizers=["example.com/mine"], deletionTimestamp=DELETED)
    for inner in (held, by_another):
        decided = planned.plan(snapshot(kyma, SkrView(inner)))
        assert not decided.at_once
        assert planned.RemoveSkrFinalizer() not in decided.in_skr
