"""The actions and the status of a Kyma, for what was read in KCP and in the SKR."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from kube_runtime import AlreadyExists, ClusterUnreachable, Conflict, Forbidden, Invalid, Step
from lifecycle_manager.kyma.crd import KymaCrd
from lifecycle_manager.kyma.events import events_between
from lifecycle_manager.kyma.resolution import MAX_MODULES
from lifecycle_manager.kyma.rules import visible_metadata
from lifecycle_manager.kyma.snapshot import KymaSnapshot, SkrView
from lifecycle_manager.kyma.status import for_skr
from lifecycle_manager.kyma.wanted import wanted_of
from lifecycle_manager.module_catalog.offer import Offer
from lifecycle_manager.options.kymas import Timeouts
from lifecycle_manager.options.shared import PurgeSettings
from lifecycle_manager.rollout.schedule import Timing
from lifecycle_manager.skr.access import AccessSecretMissing, SkrUnreachable
from lifecycle_manager.skr.brake import Brake
from lifecycle_manager_api import Kyma, Manifest, ModuleTemplate, State, find, names
from tests import builders
from tests.builders import condition
from tests.unit.kyma import planning, steps
from tests.unit.kyma.planning import Planned, planned
from tests.unit.kyma.steps import ModuleChange

WEBHOOK_READY = condition("SKRWebhook", "WatcherReady", status="True")
CATALOG_READY = condition("ModuleCatalog", "Synced", status="True")
OTHERS_READY = {"conditions": [WEBHOOK_READY, CATALOG_READY]}
OFFER = Offer.of([builders.template()], [builders.release(regular="0.1.0")])
INSTALLING = Offer.of([builders.template(installs=True)], [builders.release(regular="0.1.0")])
REQUESTED = [{"name": "cloud-resources", "managed": True}]
DELETED = "2026-11-01T12:00:00Z"
AT_ONCE = Timeouts(unreachable=timedelta(0))
LATE = 86_400.0


def snapshot(
    kyma: Kyma, skr: SkrView | Exception, *, offer: Offer = OFFER, timeouts: Timeouts = AT_ONCE, **more: Any
) -> KymaSnapshot:
    settings = {"timeouts": timeouts, "interval_seconds": LATE, "deletion_interval_seconds": LATE}
    return planning.snapshot(kyma, skr, offer, settings=settings, **more)


def skr_kyma(of: Kyma, **given: Any) -> Kyma:
    """Return the Kyma CR in the SKR as it is once it has been written."""
    labels, annotations = visible_metadata(of)
    return builders.kyma(
        "default",
        **{"labels": labels, "annotations": annotations, "namespace": "kyma-system", "finalizers": []} | given,
    )


def settled(kyma: Kyma, skr: Kyma, **more: Any) -> tuple[Kyma, Kyma]:
    """Return both Kymas after the status was written to both."""
    decided = planned(snapshot(kyma, SkrView(skr), **more))
    return (
        msgspec.structs.replace(kyma, status=decided.status),
        msgspec.structs.replace(skr, status=for_skr(decided.status, skr)),
    )


def introduced(**given: Any) -> Kyma:
    return builders.kyma(records={"kymaCrd": "hash"}, **given)


def requesting(
    modules: Sequence[dict[str, Any]] = REQUESTED, *manifests: Manifest, offer: Offer = INSTALLING, **parts: Any
) -> KymaSnapshot:
    """Return a snapshot of a Kyma without faults, whose users request these modules."""
    kyma = introduced(status=OTHERS_READY)
    inner = SkrView(skr_kyma(kyma, modules=modules))
    return snapshot(kyma, inner, offer=offer, manifests=manifests, **parts)


def applied_by(decided: Planned) -> Manifest:
    (applied,) = [action for action in decided.in_kcp if isinstance(action, steps.ApplyManifest)]
    return applied.manifest


def with_broken_descriptor(template: ModuleTemplate) -> ModuleTemplate:
    spec = msgspec.structs.replace(template.spec, descriptor=msgspec.Raw(b'{"component": {}}'))
    return msgspec.structs.replace(template, spec=spec)


def patiently(seen: KymaSnapshot, *, purge: timedelta | None = None) -> KymaSnapshot:
    timeouts = Timeouts(purging=PurgeSettings(enabled=purge is not None, timeout=purge or timedelta()))
    return replace(seen, settings=seen.settings.model_copy(update={"timeouts": timeouts}))


def test_finalizer_is_set_before_the_skr_is_written() -> None:
    kyma = builders.kyma(finalizers=[])
    assert planned(snapshot(kyma, SkrView(None))).steps[:2] == (steps.AddFinalizer(), steps.InstallCrd())


def test_new_cluster_gets_crd_and_kyma_with_the_default_modules() -> None:
    kyma = builders.kyma(modules=REQUESTED, labels={names.REGION: "eu", "internal.example/secret": "x"})
    decided = planned(snapshot(kyma, SkrView(None)))
    install, create, show = decided.in_skr
    assert install == steps.InstallCrd()
    assert isinstance(create, steps.CreateKyma)
    assert create.spec == kyma.spec
    assert create.labels[names.REGION] == "eu"
    assert "internal.example/secret" not in create.labels
    assert isinstance(show, steps.WriteSkrStatus)
    assert decided.status.records.kyma_crd == "hash"


def test_kyma_cr_that_a_user_creates_first_is_read_at_once() -> None:
    kyma = builders.kyma()
    decided = planned(snapshot(kyma, SkrView(None)), {steps.CreateKyma: AlreadyExists(409, "AlreadyExists", "")})
    assert [type(each) for each in decided.steps] == [steps.InstallCrd, steps.CreateKyma]
    assert (decided.end.status, decided.end.requeue_after) == (None, 0)


def test_users_spec_is_only_read() -> None:
    kyma = introduced(modules=REQUESTED)
    users = skr_kyma(kyma, channel="fast")
    users = msgspec.structs.replace(users, spec=msgspec.structs.replace(users.spec, skip_maintenance_windows=True))
    decided = planned(snapshot(kyma, SkrView(users)))
    assert not any(isinstance(action, steps.CreateKyma) for action in decided.in_skr)
    assert (decided.status.active_channel, decided.status.skip_maintenance_windows) == ("fast", True)
    assert decided.status.modules == ()


def test_skr_keeps_its_crd_while_that_of_kcp_can_not_be_read() -> None:
    kyma = builders.kyma(records={"kymaCrd": "older"})
    unseen = replace(snapshot(kyma, SkrView(skr_kyma(kyma))), crd=KymaCrd({}, ""))
    decided = planned(unseen)
    assert steps.InstallCrd() not in decided.in_skr
    assert decided.status.records.kyma_crd == "older"


def test_skr_that_lost_its_crd_meanwhile_is_recorded_without_one_of_kcp() -> None:
    kyma = builders.kyma(records={"kymaCrd": "older"})
    unseen = replace(snapshot(kyma, SkrView(None)), crd=KymaCrd({}, ""))
    assert steps.InstallCrd() in planned(unseen).in_skr
    created = replace(unseen, skr=SkrView(skr_kyma(kyma)), installed_crd="")
    assert planned(created).status.records.kyma_crd == ""


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
    labels, annotations = visible_metadata(kyma)
    given: dict[str, Any] = {
        "labels": {**labels, "mine": "x", **changed.get("labels", {})},
        "annotations": {**annotations, "mine": "x", **changed.get("annotations", {})},
    }
    (sync,) = [
        action
        for action in planned(snapshot(kyma, SkrView(skr_kyma(kyma, **given)))).in_skr
        if isinstance(action, steps.SyncMetadata)
    ]
    assert (sync.labels, sync.annotations) == (labels, annotations)


def test_ready_needs_every_module_the_webhook_and_the_catalog() -> None:
    config = builders.module_config(status={"state": "Ready", "observedGeneration": 1})
    for conditions, state in (
        ([WEBHOOK_READY, CATALOG_READY], State.READY),
        ([CATALOG_READY], State.PROCESSING),
        ([WEBHOOK_READY], State.PROCESSING),
        ([WEBHOOK_READY, condition("ModuleCatalog", "CatalogSyncFailed")], State.WARNING),
        ([condition("SKRWebhook", "WatcherSilent"), CATALOG_READY], State.WARNING),
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
    decided = planned(snapshot(kyma, SkrView(in_skr)))
    states = {module.name: module.state for module in decided.status.modules}
    assert states == {"cloud-resources": State.READY, "tpyo": State.WARNING}
    modules = find(decided.status.conditions, "Modules")
    assert modules is not None
    assert modules.status == "False"
    assert "tpyo" in modules.message
    (recorded,) = [action for action in decided.in_skr if isinstance(action, steps.WriteSkrStatus)]
    events = events_between(in_skr.status, recorded.status)
    assert [each.reason for each in events if "tpyo" in each.note] == ["ModuleWarning"]


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
    decided = planned(snapshot(kyma, ClusterUnreachable("no answer")))
    assert decided.status.state is State.ERROR
    why = "the cluster can't be reached: no answer"
    known = [msgspec.structs.replace(each, state=State.ERROR, message=why) for each in kyma.status.modules]
    assert [*decided.status.modules] == known != []
    again = planned(snapshot(msgspec.structs.replace(kyma, status=decided.status), SkrView(inner)))
    assert again.status.modules == kyma.status.modules
    refused = planned(snapshot(kyma, Forbidden(403, "Forbidden", "no right")))
    assert refused.status.modules == kyma.status.modules
    reachable = find(decided.status.conditions, "SKRReachable")
    assert reachable is not None
    assert (reachable.status, reachable.reason, reachable.message) == ("False", "ClusterUnreachable", why)
    assert decided.in_skr == ()


def test_manifest_is_named_although_the_skr_refused_what_its_users_would_see() -> None:
    kyma = introduced(status={**OTHERS_READY, "modules": [{"name": "nats", "state": "Processing"}]})
    manifests = (builders.manifest(), builders.manifest("nats"), builders.manifest("warden", mandatory=True))
    decided = planned(snapshot(kyma, Invalid(422, "Invalid", "no"), manifests=manifests))
    named = {each.name: each.manifest for each in decided.status.modules}
    assert {name: each and each.metadata.name for name, each in named.items()} == {
        "nats": "demo-nats",
        "cloud-resources": "demo-cloud-resources",
    }


REFUSED = Forbidden(403, "Forbidden", "no api today")
NO_ANSWER = ClusterUnreachable("no answer")


@pytest.mark.parametrize("step", [steps.InstallCrd, steps.SyncMetadata, steps.WriteSkrStatus])
def test_modules_are_changed_although_the_skr_refuses_what_its_users_would_see(step: type[Step]) -> None:
    kyma = builders.kyma(status=OTHERS_READY, records={"kymaCrd": "older"})
    inner = skr_kyma(introduced(labels={names.BETA: "true"}), modules=REQUESTED)
    seen = snapshot(kyma, SkrView(inner), offer=INSTALLING)
    decided = planned(seen, refused={step: REFUSED})
    assert isinstance(decided.in_skr[-1], step), "nothing more is written there"
    assert isinstance(decided.steps[-1], steps.ChangeModules)
    assert decided.end.error is REFUSED
    reachable = find(decided.status.conditions, "SKRReachable")
    assert reachable is not None
    assert "no api today" in reachable.message
    assert [each.manifest is not None for each in decided.status.modules] == [True]
    silent = planned(seen, refused={step: NO_ANSWER})
    assert (silent.changes, silent.end.error) == ((), NO_ANSWER)


def test_status_is_written_although_kcp_refuses_a_module() -> None:
    seen = requesting()
    decided = planned(seen, refused={steps.ChangeModules: REFUSED})
    assert decided.end.error is REFUSED
    assert [module.name for module in decided.status.modules] == ["cloud-resources"]
    both = planned(seen, refused={steps.ChangeModules: Conflict(409, "Conflict", ""), steps.WriteSkrStatus: REFUSED})
    assert both.end.error is REFUSED, "the first of both"
    assert "no api today" in str(both.status.last_operation)
    silent = planned(seen, refused={steps.ChangeModules: NO_ANSWER})
    assert (silent.end.error, silent.end.status) == (NO_ANSWER, None)


def test_skr_that_does_not_answer_is_an_error_only_after_its_grace() -> None:
    kyma = introduced(status=OTHERS_READY)
    kyma, _ = settled(kyma, skr_kyma(kyma))
    timeouts = Timeouts(unreachable=timedelta(seconds=30))
    away = snapshot(kyma, SkrUnreachable(ClusterUnreachable("no answer")), timeouts=timeouts)
    first = planned(away)
    assert first.status.state is State.READY
    assert first.status.modules == kyma.status.modules
    assert first.end.requeue_after == 30
    later = replace(
        away,
        kyma=msgspec.structs.replace(kyma, status=first.status),
        timing=Timing(builders.NOW + timedelta(seconds=31)),
    )
    assert planned(later).status.state is State.ERROR


def test_skipped_kyma_needs_no_action_unless_it_is_being_deleted() -> None:
    skipped = builders.kyma(labels={names.SKIP_RECONCILIATION: "true"})
    assert planned(snapshot(skipped, SkrView(None))).is_quiet
    deleting = builders.kyma(labels={names.SKIP_RECONCILIATION: "true"}, deletionTimestamp=DELETED)
    assert steps.RemoveKymaFinalizer() in planned(snapshot(deleting, SkrView(None))).in_kcp


def test_module_that_installs_something_gets_a_manifest() -> None:
    decided = planned(requesting())
    manifest = applied_by(decided)
    assert manifest.metadata.labels[names.KYMA_NAME] == "demo"
    assert manifest.metadata.labels[names.CHANNEL] == "regular"
    assert manifest.spec.version == "0.1.0"
    assert msgspec.json.decode(manifest.spec.install.source) == {
        "name": "kyma-project.io/module/cloud-resources",
        "ref": "sha256:0.1.0",
        "repo": "registry.example.com/modules",
        "type": "oci-ref",
    }
    (module,) = decided.status.modules
    assert module.state is State.PROCESSING
    assert module.manifest is not None
    assert module.resource is not None
    assert module.resource.kind == "Infrastructure"


def test_module_has_the_state_of_its_manifest() -> None:
    applied = applied_by(planned(requesting()))
    for value, state in (("Ready", State.READY), ("Error", State.ERROR), ("Warning", State.WARNING)):
        status = msgspec.convert({"state": value, "lastOperation": {"operation": "why"}}, type(applied.status))
        decided = planned(requesting(REQUESTED, msgspec.structs.replace(applied, status=status)))
        (module,) = decided.status.modules
        assert module.state is state
        assert ("why" in module.message) is (state is not State.READY)


def test_module_that_is_not_requested_any_more_is_removed_with_its_manifest() -> None:
    decided = planned(requesting([], builders.manifest()))
    assert steps.DeleteManifest("demo-cloud-resources", by_users=True) in decided.in_kcp
    (module,) = decided.status.modules
    assert module.state is State.DELETING
    going = builders.manifest(deletionTimestamp=DELETED, status={"state": "Warning"})
    later = planned(requesting([], going))
    assert not any(isinstance(action, steps.DeleteManifest) for action in later.in_kcp)
    assert later.status.modules[0].state is State.DELETING
    assert planned(requesting([])).status.modules == ()


RESTRICTED = Offer.of(
    [builders.template(installs=True)],
    [builders.release(regular="0.1.0", spec={"kymaSelector": {"matchLabels": {"team": "a"}}})],
)


def test_removed_module_takes_the_sync_resources_that_nothing_else_takes() -> None:
    """Those of its ModuleConfigs are deleted with these; those of modules that are requested or there stay."""
    listed = list(map(builders.module_status, ("gone", "going", "there", "mandatory")))
    kyma = introduced(status={"state": "Ready", "modules": listed})
    owner = {"apiVersion": "v1", "kind": "ModuleConfig", "name": "of-a-config", "uid": "uid"}
    resources = (
        builders.sync_resource("left", module="gone"),
        builders.sync_resource("of-a-config", module="gone", ownerReferences=[owner]),
        builders.sync_resource("deleting", module="gone", deletionTimestamp=DELETED),
        builders.sync_resource("its-manager-runs", module="going"),
        builders.sync_resource("of-another", module="there"),
        builders.sync_resource("of-a-mandatory-one", module="mandatory"),
        builders.sync_resource("never-listed", module="other"),
    )
    going = builders.manifest("going", deletionTimestamp=DELETED)
    manifests = (going, builders.manifest("there"), builders.manifest("mandatory", mandatory=True))
    for modules, deleted in ((["gone", "going"], []), ([], ["left", "its-manager-runs"])):
        inner = skr_kyma(kyma, modules=[{"name": each} for each in modules])
        seen = snapshot(kyma, SkrView(inner), sync_resources=resources, manifests=manifests)
        changes = wanted_of(seen, inner.spec).changes
        found = [each.resource.metadata.name for each in changes if isinstance(each, steps.DeleteSyncResource)]
        assert found == deleted
    seen = snapshot(introduced(), SkrView(inner), sync_resources=resources)
    assert not wanted_of(seen, inner.spec).changes  # whose status was lost


def test_removed_module_is_listed_until_kcp_accepts_the_deletion_of_what_it_left() -> None:
    kyma = introduced(status={"state": "Ready", "modules": [builders.module_status("gone")]})
    resources = (builders.sync_resource("left", module="gone"),)
    seen = snapshot(kyma, SkrView(skr_kyma(kyma, modules=[])), sync_resources=resources)
    refused = planned(seen, {steps.ChangeModules: Forbidden(403, "Forbidden", "not now")})
    assert [each.name for each in refused.status.modules] == ["gone"]
    assert isinstance(refused.end.error, Forbidden)
    again = planned(replace(seen, kyma=msgspec.structs.replace(kyma, status=refused.status)))
    assert again.in_kcp == (steps.DeleteSyncResource(*resources),)
    assert again.status.modules == ()


def test_module_that_a_kyma_may_no_longer_have_is_removed_although_it_is_requested() -> None:
    manifest = builders.manifest(finalizers=[names.MANIFEST_FINALIZER])
    decided = planned(requesting(REQUESTED, manifest, offer=RESTRICTED))
    assert steps.DeleteManifest(manifest.metadata.name) in decided.in_kcp
    (module,) = decided.status.modules
    assert (module.state, module.version, module.template) == (State.ERROR, "", None)
    assert "not released for this cluster" in module.message
    assert "ModuleNotForThisCluster" in module.message

    leaving = builders.manifest(finalizers=[names.MANIFEST_FINALIZER], deletionTimestamp=DELETED)
    decided = planned(requesting(REQUESTED, leaving, offer=RESTRICTED))
    assert not [each for each in decided.in_kcp if isinstance(each, steps.DeleteManifest | steps.ApplyManifest)]
    (module,) = decided.status.modules
    assert (module.state, "is being removed" in module.message) == (State.ERROR, True)


def test_restricted_module_stays_where_it_is_unmanaged_or_allowed() -> None:
    manifest = builders.manifest(finalizers=[names.MANIFEST_FINALIZER])
    for labels, managed in (({"team": "a"}, True), ({}, False)):
        kyma = introduced(status=OTHERS_READY, labels=labels)
        inner = SkrView(skr_kyma(kyma, modules=[{"name": "cloud-resources", "managed": managed}]))
        decided = planned(snapshot(kyma, inner, offer=RESTRICTED, manifests=(manifest,)))
        assert not [each for each in decided.in_kcp if isinstance(each, steps.DeleteManifest)]


def offered(*versions: str, **channels: Any) -> Offer:
    templates = [builders.template(version=version, installs=True) for version in versions]
    return Offer.of(templates, [builders.release(**channels)])


def leaving_versions(decided: Planned) -> list[tuple[str, str]]:
    return [
        (each.manifest.spec.version, each.manifest.metadata.labels[names.CHANNEL])
        for each in decided.in_kcp
        if isinstance(each, steps.UpdateTerminatingManifest)
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
    decided = planned(requesting(requested, going(), offer=offer))
    assert leaving_versions(decided) == expected
    assert not [each for each in decided.in_kcp if isinstance(each, steps.ApplyManifest | steps.DeleteManifest)]


def test_deletion_keeps_the_default_module_cr_and_the_uid_of_its_manifest() -> None:
    ignoring = [{"name": "cloud-resources", "channel": "fast", "customResourcePolicy": "Ignore", "managed": True}]
    manifest, offer = going(), offered("0.3.0", fast="0.3.0")
    (updated,) = [
        each.manifest
        for each in planned(requesting(ignoring, manifest, offer=offer)).in_kcp
        if isinstance(each, steps.UpdateTerminatingManifest)
    ]
    assert (updated.spec.custom_resource_policy, updated.spec.resource) == ("CreateAndDelete", manifest.spec.resource)
    assert (updated.metadata.name, updated.metadata.uid) == (manifest.metadata.name, "of-the-first")
    metadata = msgspec.structs.replace(updated.metadata, deletion_timestamp=builders.NOW)
    known = msgspec.structs.replace(updated, metadata=metadata)
    assert leaving_versions(planned(requesting(ignoring, known, offer=offer))) == []


def test_mandatory_module_never_shows_and_is_not_removed() -> None:
    mandatory = builders.manifest("warden", mandatory=True, status={"state": "Error"})
    decided = planned(requesting([], mandatory))
    assert decided.status.modules == ()
    assert decided.status.state is State.READY
    assert not any(isinstance(action, steps.DeleteManifest) for action in decided.in_kcp)


def test_unmanaged_module_keeps_its_manifest_and_comes_back() -> None:
    there = builders.manifest(version="0.0.9", status={"state": "Ready"})
    decided = planned(requesting([{"name": "cloud-resources", "managed": False}], there))
    assert [action for action in decided.in_kcp if isinstance(action, ModuleChange)] == [
        steps.MarkUnmanaged("demo-cloud-resources")
    ]
    (module,) = decided.status.modules
    assert (module.state, module.version) == (State.UNMANAGED, "0.0.9")
    left = builders.manifest(version="0.0.9", annotations={names.IS_UNMANAGED: "true"})
    again = planned(requesting(REQUESTED, left))
    (applied,) = [action for action in again.in_kcp if isinstance(action, ModuleChange)]
    assert isinstance(applied, steps.ApplyManifest)
    assert names.IS_UNMANAGED not in applied.manifest.metadata.annotations
    assert applied.manifest.spec.version == "0.1.0"


def test_module_is_managed_again_although_its_version_is_not_offered() -> None:
    left = builders.manifest(version="0.0.9", annotations={names.IS_UNMANAGED: "true"})
    again = steps.MarkUnmanaged("demo-cloud-resources", is_unmanaged=False)
    assert planned(requesting(REQUESTED, left, offer=Offer.of([], []))).changes == (again,)


@pytest.mark.parametrize("is_configured", [True, False])
def test_unmanaged_module_that_is_removed_stays_for_good(is_configured: bool) -> None:
    """Its ModuleConfigs and SyncResources are in force: it is not being removed, and nobody has to delete a thing."""
    kyma = introduced(status=OTHERS_READY)
    unmanaged = SkrView(skr_kyma(kyma, modules=[{"name": "cloud-resources", "managed": False}]))
    configs, resources = (builders.module_config(),) if is_configured else (), (builders.sync_resource("left"),)
    there = builders.manifest(annotations={names.IS_UNMANAGED: "true"}, status={"state": "Unmanaged"})
    going = builders.manifest(annotations={names.IS_UNMANAGED: "true"}, deletionTimestamp=DELETED)
    rounds = [(unmanaged, (there,)), *((SkrView(skr_kyma(kyma)), each) for each in ((there,), (going,), (), ()))]
    for inner, manifests in rounds:
        parts: dict[str, Any] = {"manifests": manifests, "module_configs": configs, "sync_resources": resources}
        decided = planned(snapshot(kyma, inner, offer=INSTALLING, **parts))
        status = decided.end.status or kyma.status
        (module,) = status.modules
        assert (module.state, status.state) == (State.UNMANAGED, State.READY)
        assert "stays as it is" in module.message
        assert not any(isinstance(action, steps.DeleteSyncResource) for action in decided.in_kcp)
        kyma = msgspec.structs.replace(kyma, status=status)


def test_module_without_a_default_module_cr_has_none_in_the_manifest_and_the_status() -> None:
    ignoring = [{"name": "cloud-resources", "managed": True, "customResourcePolicy": "Ignore"}]
    decided = planned(requesting(ignoring, builders.manifest()))
    spec, (module,) = applied_by(decided).spec, decided.status.modules
    assert (spec.custom_resource_policy, msgspec.json.decode(spec.resource)) == ("Ignore", None)
    assert module.resource is None


def test_unreadable_descriptor_is_reported_and_the_manifest_stays() -> None:
    broken = with_broken_descriptor(builders.template(installs=True))
    offer = Offer.of([broken], [builders.release(regular="0.1.0")])
    decided = planned(requesting(REQUESTED, builders.manifest(version="0.0.9"), offer=offer))
    (module,) = decided.status.modules
    assert module.state is State.ERROR
    assert "spec.descriptor.component.name is missing" in module.message
    assert not any(isinstance(action, ModuleChange) for action in decided.in_kcp)


@pytest.mark.parametrize(("is_configured", "state"), [(False, State.WARNING), (True, State.DELETING)])
def test_module_stays_where_its_next_version_lacks_all_objects_by_mistake(is_configured: bool, state: State) -> None:
    """One that enables ModuleConfig has left all to its Module Manager."""
    templates = [
        builders.template(installs=True),
        builders.template(version="0.2.0", enable_module_config=is_configured),
    ]
    offer = Offer.of(templates, [builders.release(regular="0.2.0")])
    decided = planned(requesting(REQUESTED, builders.manifest(version="0.1.0"), offer=offer))
    module = decided.status.modules[-1]
    assert (module.state, module.version) == (state, "0.1.0")
    assert any(isinstance(action, steps.DeleteManifest) for action in decided.in_kcp) == is_configured
    if not is_configured:  # by the template that the status names, ModuleConfigs are deleted
        assert module.template is not None
        assert module.template.metadata.name == "cloud-resources-0.1.0"


def test_module_configs_stay_where_the_next_version_has_nothing_by_mistake() -> None:
    """A module without objects of its own has nothing but ModuleConfigs, and users' objects by these."""
    kyma = introduced(status=OTHERS_READY)
    kyma, inner = settled(kyma, skr_kyma(kyma, modules=REQUESTED))
    templates = [builders.template(), builders.template(version="0.2.0", enable_module_config=False)]
    offer = Offer.of(templates, [builders.release(regular="0.2.0")])
    (module,) = planned(snapshot(kyma, SkrView(inner), offer=offer)).status.modules
    assert (module.state, module.version) == (State.WARNING, "0.1.0")
    assert "0.2.0 has nothing to install and does not enable ModuleConfig; version 0.1.0 stays" in module.message
    assert module.template is not None
    assert module.template.metadata.name == "cloud-resources-0.1.0"


def test_version_that_could_not_be_installed_disables_no_module_config() -> None:
    """By the template that the status names, ModuleConfigs are deleted, and with them the users' objects."""
    broken = with_broken_descriptor(builders.template(version="0.2.0", enable_module_config=False))
    offer = Offer.of([builders.template(installs=True), broken], [builders.release(regular="0.2.0")])
    (module,) = planned(requesting(REQUESTED, builders.manifest(version="0.1.0"), offer=offer)).status.modules
    assert (module.state, module.version) == (State.ERROR, "0.1.0")
    assert "ModuleTemplate cloud-resources-0.2.0: " in module.message
    assert module.template is not None
    assert module.template.metadata.name == "cloud-resources-0.1.0"


def test_module_without_a_manifest_stays_installed_while_the_next_is_unreadable() -> None:
    """Else that would count as a first installation later: without its turn, and whatever is wrong with it."""
    kyma = introduced(status=OTHERS_READY)
    kyma, inner = settled(kyma, skr_kyma(kyma, modules=REQUESTED))
    empty = builders.template(version="0.2.0", enable_module_config=False)
    states = []
    for next_one in (with_broken_descriptor(empty), empty):
        offer = Offer.of([builders.template(), next_one], [builders.release(regular="0.2.0")])
        kyma, inner = settled(kyma, inner, offer=offer)
        (module,) = kyma.status.modules
        assert module.template is not None
        assert (module.version, module.template.metadata.name) == ("0.1.0", "cloud-resources-0.1.0")
        states.append(module.state)
    assert states == [State.ERROR, State.WARNING]


def test_module_stays_until_a_rollout_releases_a_template_without_objects() -> None:
    offer = Offer.of([builders.template(enable_module_config=True)], [builders.release(regular="0.1.0")])
    rollouts: dict[str, Any] = {"cloud-resources": {}}
    for held in (True, False):
        timing = Timing(builders.NOW, rollouts=rollouts if held else {})
        decided = planned(requesting(REQUESTED, builders.manifest(), offer=offer, timing=timing))
        assert any(isinstance(action, steps.DeleteManifest) for action in decided.in_kcp) != held


def test_module_that_installs_nothing_stays_while_its_descriptor_is_not_found() -> None:
    kyma = introduced(status=OTHERS_READY)
    kyma, inner = settled(kyma, skr_kyma(kyma, modules=REQUESTED))
    offer = replace(OFFER, problems={"cloud-resources-0.1.0": "the registry is on fire"})
    assert planned(snapshot(kyma, SkrView(inner), offer=offer)).in_kcp == ()


def test_version_that_could_not_be_installed_does_not_block_another_one() -> None:
    """Neither a lower version nor one that waits for its turn or a downtime: no step back from it is needed."""
    broken = with_broken_descriptor(builders.template(version="0.2.0", installs=True))
    templates = [broken, builders.template(installs=True)]
    seen = requesting(offer=Offer.of(templates, [builders.release(regular="0.2.0")]))
    first = planned(seen)
    (module,) = first.status.modules
    assert (module.state, module.version) == (State.ERROR, "0.2.0")
    kyma, back = msgspec.structs.replace(seen.kyma, status=first.status), builders.release(regular="0.1.0")
    mended = planned(replace(seen, kyma=kyma, offer=Offer.of(templates, [back])))
    assert applied_by(mended).spec.version == "0.1.0"


def test_module_that_is_installed_needs_no_descriptor_to_stay_as_it_is() -> None:
    """The registry can't be reached when a process begins: nothing is wrong with what the clusters have."""
    offer = replace(INSTALLING, problems={"cloud-resources-0.1.0": "the registry is on fire"})
    decided = planned(requesting(REQUESTED, builders.manifest(version="0.1.0"), offer=offer))
    (module,) = decided.status.modules
    assert module.state is not State.ERROR
    assert not any(isinstance(action, ModuleChange) for action in decided.in_kcp)
    older = builders.manifest(version="0.0.9")
    (module,) = planned(requesting(REQUESTED, older, offer=offer)).status.modules
    assert (module.state, "on fire" in module.message) == (State.ERROR, True)


def test_version_that_is_not_signed_is_refused_and_what_is_installed_stays() -> None:
    offer = replace(INSTALLING, unverified={"cloud-resources-0.1.0": "no signature"})
    for version, state in (("0.1.0", False), ("0.0.9", True)):
        decided = planned(requesting(REQUESTED, builders.manifest(version=version), offer=offer))
        (module,) = decided.status.modules
        assert (module.state is State.ERROR, "no signature" in module.message) == (state, state)
        assert not any(isinstance(action, ModuleChange) for action in decided.in_kcp)
    seen = requesting(offer=offer)
    (refused,) = wanted_of(seen, skr_kyma(seen.kyma, modules=REQUESTED).spec).modules
    assert refused.resolution.reason == "DescriptorUnverified"


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
    first = planned(there)
    assert {action.manifest for action in first.in_kcp if isinstance(action, steps.DeleteManifest)} == {
        "demo-cloud-resources",
        "demo-warden",
    }
    assert [module.name for module in first.status.modules] == ["cloud-resources"]
    assert "module cloud-resources" in operation(first)

    assert first.end.requeue_after == 600  # then it is stuck
    of_none = (*there.sync_resources, builders.sync_resource("with-its-manager", module="warden"))
    beside = planned(replace(there, sync_resources=of_none))
    assert steps.DeleteSyncResource(of_none[1]) in beside.in_kcp
    assert steps.DeleteSyncResource(of_none[0]) not in beside.in_kcp  # whose module has a ModuleConfig

    second = planned(replace(there, manifests=()))
    assert second.status.modules == ()
    assert operation(second) == "waits for a Module CR of cloud-resources, the objects of module cloud-resources"
    assert not any(isinstance(action, steps.DeleteSyncResource) for action in second.in_kcp)

    for decided in (first, second):  # or the Watcher would leave before what it serves
        removing = find(decided.status.conditions, "Modules")
        assert removing is not None
        assert removing.reason == "Removing"

    third = planned(replace(there, manifests=(), module_configs=()))
    assert steps.DeleteSyncResource(*there.sync_resources) in third.in_kcp

    modules_gone = replace(there, manifests=(), module_configs=(), sync_resources=())
    fourth = planned(modules_gone)
    modules = find(fourth.status.conditions, "Modules")
    assert modules is not None
    assert modules.reason == "ModulesRemoved"
    assert not any(isinstance(action, steps.DeleteKyma) for action in fourth.in_skr)

    gone = {"conditions": [condition(kind, "Removed") for kind in ("SKRWebhook", "ModuleCatalog")]}
    left = introduced(status=gone, deletionTimestamp=DELETED)
    fifth = planned(replace(modules_gone, kyma=left))
    assert fifth.in_skr == (steps.DeleteKyma(),)
    assert steps.RemoveKymaFinalizer() not in fifth.in_kcp

    last = planned(replace(modules_gone, kyma=left, skr=SkrView(None)))
    assert (last.steps, last.end.status) == ((steps.RemoveCrd(), steps.RemoveKymaFinalizer()), None)


def operation(decided: Planned) -> str:
    last = decided.status.last_operation
    assert last is not None
    return last.operation


def test_deletion_without_progress_is_a_warning_that_names_what_it_waits_for() -> None:
    kyma = introduced(deletionTimestamp="2026-11-01T11:49:00Z")
    stuck = snapshot(kyma, SkrView(skr_kyma(kyma)), manifests=(builders.manifest(deletionTimestamp=DELETED),))
    decided = planned(stuck)
    assert decided.status.state is State.WARNING
    assert "module cloud-resources" in operation(decided)
    assert not any(isinstance(action, steps.PurgeFinalizers) for action in decided.in_skr)
    purging = planned(patiently(stuck, purge=timedelta(minutes=5)))
    assert steps.PurgeFinalizers(stuck.manifests) in purging.in_skr
    on_time = planned(patiently(stuck, purge=timedelta(minutes=11)))
    assert steps.PurgeFinalizers(stuck.manifests) in on_time.in_skr
    patient = planned(patiently(stuck, purge=timedelta(minutes=12)))
    assert not any(isinstance(action, steps.PurgeFinalizers) for action in patient.in_skr)
    assert patient.end.requeue_after == 60
    away = snapshot(kyma, ClusterUnreachable("no answer"), manifests=stuck.manifests)
    assert planned(patiently(away, purge=timedelta(0))).in_skr == ()


def test_objects_of_sync_resources_are_purged_like_those_of_modules() -> None:
    kyma = introduced(deletionTimestamp="2026-11-01T11:49:00Z")
    held = (builders.sync_resource("held", deletionTimestamp=DELETED),)
    stuck = snapshot(kyma, SkrView(skr_kyma(kyma)), sync_resources=held)
    assert not any(isinstance(action, steps.PurgeFinalizers) for action in planned(stuck).in_skr)
    purging = planned(patiently(stuck, purge=timedelta(minutes=5)))
    assert steps.PurgeFinalizers(held) in purging.in_skr


def test_users_see_that_their_kyma_is_being_deleted_and_what_it_waits_for() -> None:
    kyma = introduced(deletionTimestamp=DELETED)
    inner = skr_kyma(kyma)
    decided = planned(snapshot(kyma, SkrView(inner), manifests=(builders.manifest(),)))
    shown = decided.shown
    assert shown.state is State.DELETING
    assert shown.last_operation is not None
    assert shown.last_operation.operation == "waits for module cloud-resources"
    again = planned(
        snapshot(
            msgspec.structs.replace(kyma, status=decided.status),
            SkrView(msgspec.structs.replace(inner, status=shown)),
            manifests=(builders.manifest(deletionTimestamp=DELETED),),
        )
    )
    assert again.in_skr == ()


def test_deletion_continues_without_the_skr_only_where_its_secret_is_gone() -> None:
    kyma = introduced(status=OTHERS_READY, deletionTimestamp=DELETED)
    assert planned(snapshot(kyma, AccessSecretMissing("demo"))).in_kcp == (), "it may be created again"
    gone = planned(replace(snapshot(kyma, AccessSecretMissing("demo")), brake=Brake(may_forget=True)))
    assert gone.in_kcp == (steps.RemoveKymaFinalizer(),)
    timeouts = Timeouts(removes_finalizers_of_others=True)
    missing = snapshot(kyma, AccessSecretMissing("demo"), timeouts=timeouts)
    abandoned = replace(missing, brake=Brake(may_forget=True))
    assert planned(abandoned).in_kcp == (steps.RemoveKymaFinalizer(of_others=True),)
    metadata = msgspec.structs.replace(kyma.metadata, finalizers=("example.com/observer",))
    left = replace(abandoned, kyma=msgspec.structs.replace(kyma, metadata=metadata))
    assert planned(left).in_kcp == (steps.RemoveKymaFinalizer(of_others=True),)
    assert planned(patiently(left)).is_quiet
    claimed = snapshot(kyma, SkrView(None, claimed_by="other"), timeouts=timeouts)
    assert planned(claimed).in_kcp == (steps.RemoveKymaFinalizer(),)
    away = planned(snapshot(introduced(deletionTimestamp=DELETED), ClusterUnreachable("no answer")))
    assert steps.RemoveKymaFinalizer() not in away.in_kcp


def test_own_finalizer_is_removed_from_a_kyma_cr_that_a_user_deletes() -> None:
    kyma = introduced(status=OTHERS_READY)
    going = skr_kyma(kyma, finalizers=[names.KYMA_FINALIZER], deletionTimestamp=DELETED)
    decided = planned(snapshot(kyma, SkrView(going)))
    assert decided.in_skr == (steps.RemoveSkrFinalizer(),)
    assert decided.end.requeue_after == 0


def test_kyma_cr_with_a_finalizer_of_others_is_not_read_again_sooner() -> None:
    kyma = introduced(status=OTHERS_READY)
    held = skr_kyma(kyma, finalizers=[names.KYMA_FINALIZER])
    by_another = skr_kyma(kyma, finalizers=["example.com/mine"], deletionTimestamp=DELETED)
    for inner in (held, by_another):
        decided = planned(snapshot(kyma, SkrView(inner)))
        assert decided.end.requeue_after == LATE
        assert steps.RemoveSkrFinalizer() not in decided.in_skr


def test_module_that_is_requested_again_names_the_module_crs_that_block_its_removal() -> None:
    blocked = [condition("Ready", "ModuleCRsInUse", "delete them first: Infrastructure kyma-system/mine")]
    status = {"state": "Deleting", "conditions": blocked}
    leaving = builders.manifest(version="0.1.0", status=status, deletionTimestamp=DELETED)
    (module,) = planned(requesting(REQUESTED, leaving)).shown.modules
    again = "is being removed, and is installed again after that"
    assert module.message == f"{again}: delete them first: Infrastructure kyma-system/mine (ModuleCRsInUse)"
