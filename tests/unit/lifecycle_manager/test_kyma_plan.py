"""What a Kyma needs next, and what its status says, for what is seen in both clusters."""

from dataclasses import replace
from typing import Any

import msgspec

from lifecycle_manager.kyma import plan as planned
from lifecycle_manager.kyma.observe import SkrView, Snapshot
from lifecycle_manager.kyma.resolution import Catalog, resolve
from lifecycle_manager.kyma.status import for_skr
from lifecycle_manager.skr import SkrFailure
from lifecycle_manager_api import Kyma, State, names
from lifecycle_manager_api.conditions import find
from tests import builders

WEBHOOK_READY = {
    "type": "SKRWebhook",
    "status": "True",
    "reason": "WatcherReady",
    "message": "watched",
    "lastTransitionTime": "2026-11-01T12:00:00Z",
}
CATALOG = Catalog.of([builders.template()], [builders.release(regular="0.1.0")])
ASKED = [{"name": "cloud-resources", "managed": True}]


def snapshot(kyma: Kyma, skr: SkrView | SkrFailure, **more: Any) -> Snapshot:
    return Snapshot(builders.NOW, kyma, CATALOG, skr, "hash", **more)


def skr_kyma(of: Kyma, **given: Any) -> Kyma:
    """Return the Kyma CR in the SKR as it looks once everything has been brought there."""
    labels, annotations = planned.visible_metadata(of)
    return builders.kyma("default", labels=labels, annotations=annotations, namespace="kyma-system", **given)


def settled(kyma: Kyma, skr: Kyma, **more: Any) -> tuple[Kyma, Kyma]:
    """Return both Kymas after the status was written to both."""
    decided = planned.plan(snapshot(kyma, SkrView(skr), **more))
    (written,) = [action for action in decided.in_kcp if isinstance(action, planned.WriteStatus)]
    return (
        msgspec.structs.replace(kyma, status=written.status),
        msgspec.structs.replace(skr, status=for_skr(written.status, skr)),
    )


def introduced(**given: Any) -> Kyma:
    return builders.kyma(annotations={planned.CRD_HASH: "hash"}, **given)


def test_finalizer_comes_before_anything_reaches_the_cluster() -> None:
    kyma = builders.kyma(finalizers=[])
    assert planned.plan(snapshot(kyma, SkrView(None))) == planned.Plan(in_kcp=(planned.AddFinalizer(),))


def test_new_cluster_gets_crd_and_kyma_with_the_default_modules() -> None:
    kyma = builders.kyma(modules=ASKED, labels={names.REGION: "eu", "internal.example/secret": "x"})
    decided = planned.plan(snapshot(kyma, SkrView(None)))
    install, create = decided.in_skr
    assert install == planned.InstallKymaCrd()
    assert isinstance(create, planned.CreateSkrKyma)
    assert create.spec == kyma.spec
    assert create.labels[names.REGION] == "eu"
    assert "internal.example/secret" not in create.labels
    assert planned.RecordCrdHash("hash") in decided.in_kcp


def test_users_spec_is_only_read() -> None:
    kyma = introduced(modules=ASKED)
    decided = planned.plan(snapshot(kyma, SkrView(skr_kyma(kyma, channel="fast"))))
    assert not any(isinstance(action, planned.CreateSkrKyma) for action in decided.in_skr)
    (written,) = [action for action in decided.in_kcp if isinstance(action, planned.WriteStatus)]
    assert written.status.active_channel == "fast"
    assert written.status.modules == ()


def test_quiet_kyma_is_left_alone() -> None:
    kyma = introduced(status={"conditions": [WEBHOOK_READY]})
    kyma, in_skr = settled(kyma, skr_kyma(kyma, modules=ASKED))
    assert planned.plan(snapshot(kyma, SkrView(in_skr))) == planned.Plan()


def test_crd_that_changed_is_brought_again() -> None:
    kyma = builders.kyma(annotations={planned.CRD_HASH: "older"})
    assert planned.InstallKymaCrd() in planned.plan(snapshot(kyma, SkrView(skr_kyma(kyma)))).in_skr


def test_label_that_a_user_removed_is_put_back() -> None:
    kyma = introduced()
    bare = msgspec.structs.replace(skr_kyma(kyma), metadata=builders.kyma("default").metadata)
    actions = planned.plan(snapshot(kyma, SkrView(bare))).in_skr
    assert any(isinstance(action, planned.SyncSkrMetadata) for action in actions)


def test_ready_needs_every_module_and_the_webhook() -> None:
    kyma = introduced(status={"conditions": [WEBHOOK_READY]})
    config = builders.module_config(status={"state": "Ready"})
    ready, _ = settled(kyma, skr_kyma(kyma, modules=ASKED), module_configs=(config,))
    assert ready.status.state is State.READY
    assert find(ready.status.conditions, "Ready").status == "True"  # type: ignore[union-attr]
    without_webhook, _ = settled(introduced(), skr_kyma(kyma, modules=ASKED), module_configs=(config,))
    assert without_webhook.status.state is State.PROCESSING


def test_module_that_is_unknown_is_named_and_the_others_go_on() -> None:
    kyma = introduced(status={"conditions": [WEBHOOK_READY]})
    asked = [*ASKED, {"name": "tpyo", "managed": True}]
    after, _ = settled(kyma, skr_kyma(kyma, modules=asked))
    states = {module.name: module.state for module in after.status.modules}
    assert states == {"cloud-resources": State.READY, "tpyo": State.ERROR}
    condition = find(after.status.conditions, "Modules")
    assert condition is not None
    assert condition.status == "False"
    assert "tpyo" in condition.message


def test_unreachable_cluster_keeps_the_last_module_states() -> None:
    kyma = introduced(status={"conditions": [WEBHOOK_READY]})
    kyma, _ = settled(kyma, skr_kyma(kyma, modules=ASKED))
    decided = planned.plan(snapshot(kyma, SkrFailure("SKRUnreachable", "no answer")))
    (written,) = decided.in_kcp
    assert isinstance(written, planned.WriteStatus)
    assert written.status.state is State.ERROR
    assert written.status.modules == kyma.status.modules
    reachable = find(written.status.conditions, "SKRReachable")
    assert reachable is not None
    assert (reachable.status, reachable.reason, reachable.message) == ("False", "SKRUnreachable", "no answer")
    assert decided.in_skr == ()


def test_skipped_kyma_is_left_alone_unless_it_is_being_deleted() -> None:
    skipped = builders.kyma(labels={names.SKIP_RECONCILIATION: "true"})
    assert planned.plan(snapshot(skipped, SkrView(None))) == planned.Plan()
    deleting = builders.kyma(labels={names.SKIP_RECONCILIATION: "true"}, deletionTimestamp="2026-11-01T12:00:00Z")
    assert planned.plan(snapshot(deleting, SkrView(None))) == planned.Plan(in_kcp=(planned.RemoveFinalizer(),))


def test_deletion_waits_for_what_modules_left_and_names_it() -> None:
    kyma = introduced(deletionTimestamp="2026-11-01T12:00:00Z")
    waiting = snapshot(kyma, SkrView(skr_kyma(kyma)), sync_resources=(builders.sync_resource("left"),))
    (written,) = planned.plan(waiting).in_kcp
    assert isinstance(written, planned.WriteStatus)
    assert written.status.state is State.DELETING
    assert "SyncResource left" in written.status.last_operation.operation  # type: ignore[union-attr]
    done = planned.plan(replace(waiting, sync_resources=()))
    assert done == planned.Plan(in_skr=(planned.DeleteSkrKyma(),), in_kcp=(planned.RemoveFinalizer(),))


def test_deletion_waits_for_the_watcher_to_leave() -> None:
    kyma = introduced(status={"conditions": [WEBHOOK_READY]}, deletionTimestamp="2026-11-01T12:00:00Z")
    (written,) = planned.plan(snapshot(kyma, SkrView(skr_kyma(kyma)))).in_kcp
    assert isinstance(written, planned.WriteStatus)


def test_deletion_goes_on_when_the_cluster_is_gone_for_good_only() -> None:
    kyma = introduced(status={"conditions": [WEBHOOK_READY]}, deletionTimestamp="2026-11-01T12:00:00Z")
    gone = planned.plan(snapshot(kyma, SkrFailure("AccessSecretMissing", "no Secret")))
    assert gone.in_kcp == (planned.RemoveFinalizer(),)
    away = planned.plan(
        snapshot(introduced(deletionTimestamp="2026-11-01T12:00:00Z"), SkrFailure("SKRUnreachable", ""))
    )
    assert planned.RemoveFinalizer() not in away.in_kcp


def test_module_channel_goes_before_the_kymas_channel() -> None:
    templates = [builders.template(version="1.0.0"), builders.template(version="2.0.0")]
    catalog = Catalog.of(templates, [builders.release(regular="1.0.0", fast="2.0.0")])
    kyma = builders.kyma(modules=[{"name": "cloud-resources", "channel": "fast", "managed": True}])
    (resolution,) = resolve(kyma.spec, catalog)
    assert resolution.version == "2.0.0"


def test_channel_on_the_template_decides_without_a_release_meta() -> None:
    catalog = Catalog.of([builders.template(channel="regular")], [])
    (resolution,) = resolve(builders.kyma(modules=ASKED).spec, catalog)
    assert resolution.template is not None
    assert resolution.template.metadata.name == "cloud-resources-regular"


def test_unresolved_module_says_what_is_missing() -> None:
    release = builders.release(fast="9.9.9")
    (no_channel,) = resolve(builders.kyma(modules=ASKED).spec, Catalog.of([], [release]))
    assert (no_channel.reason, "fast" in no_channel.message) == ("ChannelNotFound", True)
    fast = builders.kyma(channel="fast", modules=ASKED)
    (no_template,) = resolve(fast.spec, Catalog.of([], [release]))
    assert (no_template.reason, "cloud-resources-9.9.9" in no_template.message) == ("ModuleTemplateNotFound", True)
    (no_module,) = resolve(fast.spec, Catalog.of([], []))
    assert no_module.reason == "ModuleNotFound"


def test_mandatory_module_cannot_be_chosen() -> None:
    catalog = Catalog.of([builders.template(mandatory=True)], [builders.release(regular="0.1.0")])
    (resolution,) = resolve(builders.kyma(modules=ASKED).spec, catalog)
    assert (resolution.template, resolution.reason) == (None, "ModuleMandatory")
