"""A SyncResource on simulated clusters: what is written in which order, what triggers it, whose an object is."""

import asyncio
import json

import msgspec
import pytest

from kube_runtime import Change, KubeError, ObjectKey
from kube_simulation import ApiRequest, Refuse, Refused, Simulation
from lifecycle_manager.contract.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    KYMAS,
    MODULE_CONFIGS,
    SYNC_RESOURCES,
)
from lifecycle_manager.contract.signals import ClusterReachable, ModulesProtected, ResyncRequested
from lifecycle_manager.object_set.owner_writes import RecordingFailed
from lifecycle_manager.object_set.repairs import CONTESTED, REPAIRS_IN_A_ROW
from lifecycle_manager.skr.access import AccessSecretMissing
from lifecycle_manager.sync_resource.changes import (
    kyma_deletion_began,
    lost_objects,
    pause_ended,
    spec_changed,
    users_change_arrived,
)
from lifecycle_manager.sync_resource.rules import READINESS_SECONDS
from lifecycle_manager_api import Kyma, SyncResource, find, names
from tests import builders
from tests.kinds import CONFIG_MAPS, DEPLOYMENTS, PODS, crd_of
from tests.modules import as_text
from tests.unit.sync_resource.clusters import KCP, SKR, Syncing, has_modules
from tests.waiting import eventually

SYNCED = [{"group": "", "version": "v1", "kind": "ConfigMap", "namespace": "kyma-system", "name": "one"}]


def refused(*named: str) -> Refuse:
    def matches(request: ApiRequest) -> bool:
        return request.cluster == "skr" and request.name in named and request.method != "GET"

    return Refuse(matches, refused=Refused(403, "Forbidden", "quota exceeded"))


async def test_workload_that_is_not_ready_is_reported_with_what_its_pods_say(world: Syncing) -> None:
    labels, metadata = {"app": "garden"}, {"name": "garden", "namespace": SKR}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "manager", "image": "garden:1"}]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}
    await world.write("first", resource=json.dumps(deployment))
    await world.reconcile("first")
    status = {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1}
    await world.skr.merge_patch(DEPLOYMENTS, "garden", {"status": status}, SKR, subresource="status")
    pod = {"metadata": {"name": "garden-0", "namespace": SKR, "labels": labels}, "spec": template["spec"]}
    await world.skr.create(PODS, pod, SKR, field_manager="test")
    for reason, message in (
        ("ImagePullBackOff", "ImagePullBackOff: image garden:1"),
        ("CrashLoopBackOff", "CrashLoopBackOff: container manager ended with exit code 2 (Error)"),
    ):
        ended = {"terminated": {"exitCode": 2, "reason": "Error"}}
        container = {"name": "manager", "image": "garden:1", "imageID": "", "ready": False, "restartCount": 1}
        container |= {"state": {"waiting": {"reason": reason}}, "lastState": ended}
        await world.skr.merge_patch(
            PODS, "garden-0", {"status": {"containerStatuses": [container]}}, SKR, subresource="status"
        )
        result = await world.reconcile("first")
        assert result.requeue_after == READINESS_SECONDS
        (synced,) = (await world.kcp.get(SYNC_RESOURCES, "first", KCP)).status.synced
        assert synced.message.endswith(message)
    await world.skr.merge_patch(
        DEPLOYMENTS, "garden", {"status": {**status, "availableReplicas": 1}}, SKR, subresource="status"
    )
    await world.reconcile("first")
    assert await world.reason("first") == "ObjectsReady"


async def test_objects_stay_while_the_kyma_is_paused_and_follow_when_it_is_resumed(world: Syncing) -> None:
    await world.write("first", "one")
    await world.reconcile("first")
    changes: list[Change[Kyma]] = []
    world.manager.informer(KYMAS, namespace=KCP).on_change(changes.append, replay=False)
    for value in ("true", None):
        patch = {"metadata": {"labels": {names.SKIP_RECONCILIATION: value}}}
        await world.kcp.merge_patch(KYMAS, "demo", patch, KCP, field_manager="klm")
        await world.see(KYMAS, KCP)
        await world.write("first", "two")
        await world.reconcile("first")
        assert await world.objects() == ({"one"} if value else {"two"})
    assert [pause_ended(each) for each in changes] == [False, True]
    kept = {"labels": {names.SKIP_RECONCILIATION: "true"}, "annotations": {names.SKIPPED_BY: names.FORMER_VERSION}}
    await world.kcp.merge_patch(KYMAS, "demo", {"metadata": kept}, KCP, field_manager="klm")
    await world.see(KYMAS, KCP)
    await world.write("first", "three")
    await world.reconcile("first")
    assert await world.objects() == {"three"}, "it is kept from the former version alone"


async def test_object_that_is_refused_keeps_the_others_from_being_pruned(
    world: Syncing, simulation: Simulation
) -> None:
    await world.write("first", "one")
    await world.reconcile("first")
    simulation.cluster("skr").add_rule(rule := refused("two"))
    await world.write("first", "two")
    with pytest.raises(KubeError):
        await world.reconcile("first")
    assert (await world.objects(), await world.reason("first")) == ({"one"}, "ApplyFailed")
    simulation.cluster("skr").remove_rule(rule)
    await world.reconcile("first")
    assert await world.objects() == {"two"}
    assert [reason for reason, _ in world.events.in_kcp] == ["ApplyFailed", "ObjectsReady"]


async def test_intent_and_finalizer_are_written_before_the_first_object(world: Syncing, simulation: Simulation) -> None:
    await world.write("first", "one")
    await world.reconcile("first")
    writes = [each for each in simulation.requests(lambda it: it.is_write) if each.name in {"first", "one"}]
    order = [(each.cluster, each.verb, each.subresource or "") for each in writes]
    assert order[1:] == [
        ("kcp", "patch", ""),
        ("kcp", "apply", "status"),
        ("skr", "apply", ""),
        ("kcp", "apply", "status"),
    ]
    resource = await world.kcp.get(SYNC_RESOURCES, "first", KCP)
    assert names.SYNC_RESOURCE_FINALIZER in resource.metadata.finalizers


async def test_apply_with_the_finalizer_set_at_creation_costs_two_writes(
    world: Syncing, simulation: Simulation
) -> None:
    await world.write("first", "one", finalizer=True)
    await world.reconcile("first")
    for change in (["one", "two"], ["two"]):
        await world.write("first", *change, finalizer=True)
        before = simulation.requests()[-1].number
        await world.reconcile("first")
        writes = simulation.requests(lambda it: it.is_write and it.cluster == "kcp", since=before)
        assert [each.subresource for each in writes] == ["status"] * len(change)
    assert not world.events.in_kcp


async def test_nothing_is_applied_whose_intent_can_not_be_recorded(world: Syncing, simulation: Simulation) -> None:
    def records(request: ApiRequest) -> bool:
        return request.cluster == "kcp" and request.name == "first" and request.verb == "patch"

    await world.write("first", "one")
    simulation.cluster("kcp").add_rule(Refuse(records))
    with pytest.raises(RecordingFailed):
        await world.reconcile("first")
    assert await world.objects() == set()


async def test_process_that_dies_after_an_apply_leaves_nothing_behind(world: Syncing, simulation: Simulation) -> None:
    status = Refuse(lambda it: it.subresource == "status" and b"observedGeneration" in it.body)  # not the intent
    await world.write("first", "one")
    simulation.cluster("kcp").add_rule(status)
    with pytest.raises(KubeError):
        await world.reconcile("first")
    assert await world.objects() == {"one"}
    simulation.cluster("kcp").remove_rule(status)
    async with world.process():
        await world.write("first", "two")
        await world.reconcile("first")
    assert await world.objects() == {"two"}


async def test_of_two_that_want_an_object_at_the_same_moment_one_gets_it(world: Syncing) -> None:
    await world.write("first", "one")
    await world.write("second", "one")
    await world.see(SYNC_RESOURCES, None)
    await asyncio.gather(*(world.controller.reconcile_now(ObjectKey(KCP, each)) for each in ("first", "second")))
    assert {await world.reason("first"), await world.reason("second")} == {"ObjectsReady", "Conflict"}


async def test_deletion_needs_no_cluster_where_the_access_secret_is_gone(world: Syncing) -> None:
    await world.write("first", "one")
    await world.reconcile("first")
    await world.kcp.delete(SYNC_RESOURCES, "first", KCP)
    world.access = AccessSecretMissing("demo")
    await world.reconcile("first")
    assert not (await world.kcp.list(SYNC_RESOURCES, KCP)).items


async def test_second_reconcile_of_what_is_ready_writes_nothing(world: Syncing, simulation: Simulation) -> None:
    await world.write("first", "one")
    await world.reconcile("first")
    await world.see(SYNC_RESOURCES, None)
    before = simulation.requests()[-1].number
    await world.reconcile("first")
    assert not simulation.requests(lambda it: it.is_write, since=before)


async def test_reachable_cluster_enqueues_the_sync_resources_of_its_kyma_alone(world: Syncing) -> None:
    await world.write("first", "one")
    await world.see(SYNC_RESOURCES, None)
    assert world.manager.publish(ClusterReachable("demo")) == 1
    assert world.manager.publish(ClusterReachable("other")) == 0
    assert world.controller.owners() == {"demo"}


async def test_sync_resource_of_a_deleted_kyma_and_one_that_waits_are_triggered(
    world: Syncing,
) -> None:
    world.start()
    stopping = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(world.manager.run(stopping))
        await world.write("first", "one")
        await eventually(lambda: _is(world, "first", "ObjectsReady"))
        await world.write("second", "one")
        await eventually(lambda: _is(world, "second", "Conflict"))
        await world.write("first", "two")
        await eventually(lambda: _is(world, "second", "ObjectsReady"))
        await world.kcp.delete(KYMAS, "demo", KCP)
        await eventually(lambda: _is(world, "first", "KymaNotFound"))
        stopping.set()


async def _is(world: Syncing, name: str, reason: str) -> bool:
    resource = await world.kcp.get(SYNC_RESOURCES, name, KCP)
    ready = find(resource.status.conditions, "Ready")
    return ready is not None and ready.reason == reason


def test_status_of_a_sync_resource_is_no_trigger_and_what_somebody_else_writes_is() -> None:
    before = builders.sync_resource()
    assert not spec_changed(Change(before, builders.sync_resource(status={"state": "Ready"})))
    for after in (
        builders.sync_resource(generation=2),
        builders.sync_resource(finalizers=[]),
        builders.sync_resource(annotations={names.CREATE_NAMESPACES: "true"}),
        builders.sync_resource(deletionTimestamp="2026-11-01T12:00:00Z"),
    ):
        assert spec_changed(Change(before, after))
    assert spec_changed(Change(None, before))
    assert spec_changed(Change(before, None))


@pytest.mark.parametrize(
    ("before", "after", "config", "waits"),
    [
        ("", "12:00", "12:00", True),
        (None, "12:00", "12:00", True),
        ("12:00", "12:01", "12:01", True),
        ("12:01", "12:01", "12:01", False),  # something else has changed
        ("12:01", "12:00", "12:00", False),  # both were restored
        ("12:00", "12:02", "12:01", False),  # only the Module Manager says so
        ("12:00", "", "", False),
        ("12:00", None, "12:00", False),
        ("12:00", "12:01", None, False),
    ],
)
async def test_user_waits_for_what_was_made_from_the_last_change(
    world: Syncing, before: str | None, after: str | None, config: str | None, waits: bool
) -> None:
    def made(at: str | None) -> SyncResource | None:
        return None if at is None else builders.sync_resource("one", annotations={names.OBSERVED_AT: at})

    configs = world.manager.informer(MODULE_CONFIGS, namespace=None)
    if config is not None:
        configs.wrote(builders.module_config("one", annotations={names.OBSERVED_AT: config}, resourceVersion="999999"))
    assert users_change_arrived(configs, Change(made(before), made(after))) == waits


def test_object_is_given_up_by_a_status_without_it_and_by_the_end() -> None:
    before = builders.sync_resource(status={"synced": SYNCED})
    assert lost_objects(Change(before, builders.sync_resource()))
    assert lost_objects(Change(before, None))
    assert not lost_objects(Change(builders.sync_resource(), before))


def test_kyma_leaves_when_it_is_marked_for_deletion_and_when_it_is_gone() -> None:
    kyma, deleted = builders.kyma(), builders.kyma(deletionTimestamp="2026-11-01T12:00:00Z")
    assert kyma_deletion_began(Change(kyma, deleted))
    assert kyma_deletion_began(Change(deleted, None))
    assert not kyma_deletion_began(Change(None, kyma))
    assert not kyma_deletion_began(Change(kyma, msgspec.structs.replace(kyma)))


CRDS = CUSTOM_RESOURCE_DEFINITIONS
CRD_NAME = "pipelines.telemetry.example.com"
OF_TELEMETRY = {
    names.MANAGED_BY: names.LIFECYCLE_MANAGER,
    names.WATCHED_BY: "kyma",
    names.MODULE_NAME: "telemetry",
}


async def crd_of_telemetry(world: Syncing) -> None:
    """Create a CRD as a Manifest of the module telemetry has applied it."""
    metadata = {"name": CRD_NAME, "labels": OF_TELEMETRY, "annotations": {names.OWNED_BY: f"{KCP}/demo-telemetry"}}
    crd = {**crd_of("telemetry.example.com", "Pipeline"), "metadata": metadata}
    await world.skr.create(CRDS, crd, field_manager="test")


async def test_annotation_of_a_module_manager_deletes_nothing_of_another_module(world: Syncing) -> None:
    await crd_of_telemetry(world)
    crd = ["apiextensions.k8s.io", "v1", "CustomResourceDefinition", "", CRD_NAME]
    for generation in (1, 2):
        forged = {"operator.kyma-project.io/intended-objects": json.dumps({"generation": generation, "objects": [crd]})}
        await world.write("forged", "one", *["two"][: generation - 1], annotations=forged, module="telemetry")
        await world.reconcile("forged")
    await world.kcp.delete(SYNC_RESOURCES, "forged", KCP)
    await world.reconcile("forged")
    assert await world.skr.get(CRDS, CRD_NAME)
    assert not (await world.kcp.list(SYNC_RESOURCES, KCP)).items


@pytest.mark.parametrize("is_pruned", [True, False])
async def test_recorded_object_that_names_another_owner_is_not_deleted(world: Syncing, is_pruned: bool) -> None:
    await world.write("first", "one", "two", "three")
    await world.reconcile("first")
    for name, annotations in (
        ("one", {names.OWNED_BY: f"{KCP}/second"}),
        ("two", {names.OWNED_BY: None}),
    ):
        await world.skr.merge_patch(CONFIG_MAPS, name, {"metadata": {"annotations": annotations}}, SKR)
    if is_pruned:
        await world.write("first")
    else:
        await world.kcp.delete(SYNC_RESOURCES, "first", KCP)
    await world.reconcile("first")
    assert await world.objects() == {"one", "two"}


async def test_recorded_object_of_the_lifecycle_managers_own_is_never_deleted(world: Syncing) -> None:
    await world.write("first", "one")
    await world.reconcile("first")
    labels = {**OF_TELEMETRY, names.MODULE_NAME: "cloud-resources"}
    marks = {names.OWNED_BY: f"{KCP}/first"}
    metadata = {"name": "skr-webhook", "namespace": SKR, "annotations": marks, "labels": labels}
    await world.skr.create(CONFIG_MAPS, {"metadata": metadata}, SKR, field_manager="test")
    recorded = {"synced": [*SYNCED, {**SYNCED[0], "name": "skr-webhook"}]}
    await world.kcp.merge_patch(SYNC_RESOURCES, "first", {"status": recorded}, KCP, subresource="status")
    await world.kcp.delete(SYNC_RESOURCES, "first", KCP)
    await world.reconcile("first")
    assert await world.objects() == {"skr-webhook"}


async def test_restored_sync_resource_still_deletes_its_objects(world: Syncing) -> None:
    await world.write("first", "one")
    await world.reconcile("first")
    before = await world.kcp.get(SYNC_RESOURCES, "first", KCP)
    await world.kcp.merge_patch(SYNC_RESOURCES, "first", {"metadata": {"finalizers": []}}, KCP)
    await world.kcp.delete(SYNC_RESOURCES, "first", KCP)
    await world.write("first", "one", finalizer=True)
    status = {"status": msgspec.to_builtins(before.status)}
    restored = await world.kcp.merge_patch(SYNC_RESOURCES, "first", status, KCP, subresource="status")
    assert restored.metadata.uid != before.metadata.uid
    await world.kcp.delete(SYNC_RESOURCES, "first", KCP)
    await world.reconcile("first")
    assert await world.objects() == set()


async def test_event_that_precedes_its_write_is_not_lost_and_reads_one_object(
    world: Syncing, simulation: Simulation
) -> None:
    await world.write("first", "one", "two", "three")
    await world.reconcile("first")
    began = simulation.records.count
    early = await world.reconcile("first", await world.change_of("two", "DELETE"))
    assert early.requeue_after is not None
    assert early.requeue_after < 0.1
    await world.skr.delete(CONFIG_MAPS, "two", SKR)
    again = await world.reconcile("first")
    assert await world.objects() == {"one", "two", "three"}
    assert again.requeue_after == pytest.approx(120, abs=5), "the interval goes on from where it was"
    read = simulation.cluster("skr").requests(lambda record: record.verb == "get", since=began)
    assert {record.name for record in read} == {"two"}


async def test_object_that_is_changed_after_each_repair_is_left_until_the_interval(world: Syncing) -> None:
    await world.write("first", "one")
    await world.reconcile("first")
    for _ in range(REPAIRS_IN_A_ROW + 3):
        if await world.objects():
            deleted = await world.change_of("one", "DELETE")
            await world.skr.delete(CONFIG_MAPS, "one", SKR)
            result = await world.reconcile("first", deleted)
    assert await world.objects() == set()
    assert {reason for reason, _ in world.events.in_kcp} == {CONTESTED}
    assert result.requeue_after == pytest.approx(120, abs=5)
    await world.reconcile("first")
    assert await world.objects() == {"one"}


async def test_events_enqueue_those_that_have_the_object_and_a_resync_all_of_the_kyma(world: Syncing) -> None:
    await world.write("first", "one")
    await world.write("second", "two")
    await world.reconcile("first")
    await world.reconcile("second")
    await world.see(SYNC_RESOURCES, None)
    world.controller.connect()
    world.manager.publish(await world.change_of("two", "DELETE"))
    assert world.controller.queue.keys() == {ObjectKey(KCP, "second")}
    world.manager.publish(ResyncRequested("demo"))
    assert world.controller.queue.keys() == {ObjectKey(KCP, "first"), ObjectKey(KCP, "second")}


async def test_sync_resource_with_the_image_pull_secret_is_refused(world: Syncing) -> None:
    secret = f"apiVersion: v1\nkind: Secret\nmetadata: {{name: login, namespace: {SKR}}}\n"
    await world.write("thief", resource=secret)
    await world.reconcile("thief")
    assert await world.reason("thief") == "Forbidden"
    await world.write("thief", resource=secret.replace("login", "other"))
    await world.reconcile("thief")
    assert await world.reason("thief") == "ObjectsReady"


async def test_nothing_is_installed_for_a_module_that_the_kyma_does_not_have(world: Syncing) -> None:
    await world.write("first", "one")
    await world.reconcile("first")
    await has_modules(world.kcp)
    await world.see(KYMAS)
    await world.write("first", "one", "two")
    await world.write("second", "three")
    for name in ("first", "second"):
        await world.reconcile(name)
        assert await world.reason(name) == "ModuleNotEnabled"
    assert await world.objects() == {"one"}
    await has_modules(world.kcp, "cloud-resources")
    await world.see(KYMAS)
    await world.reconcile("second")
    assert await world.objects() == {"one", "three"}


async def test_sync_resources_are_limited_for_each_module_and_the_oldest_count(world: Syncing) -> None:
    for name in ("a", "b", "c", "d"):
        await world.write(name, name)
    for name in ("d", "c", "b", "a"):
        await world.reconcile(name)
    assert await world.objects() == {"a", "b", "c"}
    assert await world.reason("d") == "TooManySyncResources"
    await world.kcp.delete(SYNC_RESOURCES, "a", KCP)
    await world.reconcile("a")
    await world.reconcile("d")
    assert await world.objects() == {"b", "c", "d"}


async def test_without_the_admission_policy_nothing_new_is_applied_and_nothing_deleted(world: Syncing) -> None:
    for name in ("first", "second"):
        await world.write(name, name)
        await world.reconcile(name)
    world.unprotected = "the binding is missing"
    await world.write("first", "one")
    await world.write("third", "three")
    await world.kcp.delete(SYNC_RESOURCES, "second", KCP)
    for name in ("first", "second", "third"):
        await world.reconcile(name)
    assert await world.objects() == {"first", "second"}
    assert [await world.reason(name) for name in ("first", "third")] == ["ModulesNotProtected"] * 2
    world.unprotected = ""
    for name in ("first", "second", "third"):
        await world.reconcile(name)
    assert await world.objects() == {"one", "three"}


@pytest.mark.parametrize("image", ["once:1", "once:2"])
async def test_job_of_a_text_that_was_refused_at_first_runs_after_a_restart(world: Syncing, image: str) -> None:
    def text(used: str) -> str:
        pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": used}]}
        spec = {"ttlSecondsAfterFinished": 0, "template": {"spec": pod}}
        return as_text(
            [
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "namespace": SKR}},
                {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job", "namespace": SKR}, "spec": spec},
            ]
        )

    jobs = await world.skr.mapper.resource("batch/v1", "Job")
    await world.write("first", resource=text("once:1"))
    await world.reconcile("first")
    await world.skr.delete(jobs, "job", SKR)
    world.unprotected = "the binding is missing"
    async with world.process():
        await world.write("first", resource=text(image))
        await world.reconcile("first")
        world.unprotected = ""
        await world.reconcile("first")
    assert bool((await world.skr.list(jobs, SKR)).items) == (image == "once:2")


async def test_what_was_refused_as_modules_were_not_kept_apart_is_enqueued_once_they_are(world: Syncing) -> None:
    await world.write("first", "one")
    await world.reconcile("first")
    world.unprotected = "the binding is missing"
    await world.write("second", "two")
    await world.reconcile("second")
    await world.see(SYNC_RESOURCES, None)
    assert world.manager.publish(ModulesProtected()) == 1
    assert world.controller.queue.keys() == {ObjectKey(KCP, "second")}


async def test_nothing_is_applied_before_it_is_known_that_modules_are_kept_apart(world: Syncing) -> None:
    world.unprotected = None
    await world.write("first", "one")
    assert (await world.reconcile("first")).requeue_after == 2.0
    assert await world.objects() == set()
    assert await world.reason("first") == "Pending"


async def test_text_that_leaves_no_room_for_a_status_is_refused(world: Syncing) -> None:
    spec = {"kyma": "demo", "module": "cloud-resources", "resource": "\n" * 600_000}
    document = {"metadata": {"name": "large", "namespace": KCP}, "spec": spec}
    await world.kcp.apply(SYNC_RESOURCES, "large", document, KCP, field_manager="test")
    await world.reconcile("large")
    assert await world.reason("large") == "TextTooLarge"


async def test_status_that_does_not_fit_is_an_event_and_no_failure(world: Syncing, simulation: Simulation) -> None:
    await world.write("first", "one", kyma="nobody")
    too_large = Refused(500, "InternalError", "etcdserver: request is too large")
    rule = Refuse(lambda request: request.subresource == "status", refused=too_large)
    with simulation.cluster("kcp").ruled_by(rule):
        assert (await world.reconcile("first")).requeue_after == 120.0
    assert ("TextTooLarge", "its text leaves no room for its status; split it") in world.events.in_kcp
