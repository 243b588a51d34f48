"""A module in a simulated cluster: what is asked of it, in which order, and what is left when something goes wrong."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from kube_runtime import (
    ClusterUnreachable,
    Conflict,
    KindUnknown,
    KubeError,
    NotFound,
    ObjectKey,
    Resource,
    ServerUnavailable,
)
from kube_simulation import ApiRequest, Refuse, Refused, Simulation
from lifecycle_manager.contract.offsets import until_check
from lifecycle_manager.contract.resources import KYMAS, MANIFESTS
from lifecycle_manager.contract.signals import ObjectChanged, ObjectReference, ReadScope
from lifecycle_manager.module_installation import status as statuses
from lifecycle_manager.module_sources.store import SourceAwaited
from lifecycle_manager.object_set.owner_writes import RecordingFailed
from lifecycle_manager.object_set.repairs import CONTESTED, REPAIRS_IN_A_ROW
from lifecycle_manager.skr.access import AccessSecretMissing, SkrUnreachable
from lifecycle_manager_api import CustomStateCheck, ModuleTemplate, State, names
from tests import builders
from tests.kinds import CONFIG_MAPS, CRDS
from tests.manifest_clusters import KEY, Modules, Propagation
from tests.modules import Document, as_text, default_module_cr, group_of, module_crs, operator
from tests.takeover_from_go.played import status_of
from tests.waiting import is_gone

SKR = names.SKR_NAMESPACE
GARDENS = module_crs("garden")
UNTIL_CHECK = pytest.approx(210.0, abs=90.0)
"""A module in order is checked at the turn of its Kyma, after 0.4 to 1.0 of the interval."""
CRD = operator("garden", "1.0.0")[0]


def config_map(name: str, value: str = "1", **metadata: Any) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": SKR, **metadata},
        "data": {"value": value},
    }


def refused(*names_of_objects: str, code: int = 403, message: str = "quota exceeded") -> Refuse:
    def matches(request: ApiRequest) -> bool:
        return request.name in names_of_objects and request.method != "GET"

    return Refuse(matches, refused=Refused(code, "Forbidden", message))


async def says(world: Modules, state: str) -> None:
    await world.skr.merge_patch(GARDENS, "default", {"status": {"state": state}}, SKR, subresource="status")


async def runs(world: Modules, deployment: Document) -> None:
    """Have a Deployment run, as its controller reports it."""
    name, resource = deployment["metadata"]["name"], await world.skr.mapper.resource("apps/v1", "Deployment")
    live = await world.skr.get(resource, name, SKR)
    await world.skr.merge_patch(resource, name, {"status": status_of(live)}, SKR, subresource="status")


async def name_manifest(world: Modules) -> None:
    """Have a Kyma name the Manifest in its status."""
    await world.kcp.apply(KYMAS, "demo", builders.as_written(builders.kyma()), KEY.namespace, field_manager="test")
    named = {"apiVersion": MANIFESTS.api_version, "kind": "Manifest", "metadata": {"name": KEY.name, "namespace": "x"}}
    status = {"status": {"state": "Processing", "modules": [{"name": "garden", "state": "", "manifest": named}]}}
    await world.kcp.merge_patch(KYMAS, "demo", status, KEY.namespace, subresource="status")


async def generation_reported(world: Modules) -> int | None:
    manifest = await world.manifest()
    return manifest.status.observed_generation if manifest is not None else None


async def brought(world: Modules) -> set[str]:
    found = await world.skr.list(CONFIG_MAPS, SKR)
    return {each["metadata"]["name"] for each in found.items}


async def test_intent_is_recorded_before_the_first_apply(world: Modules, simulation: Simulation) -> None:
    simulation.cluster("skr").add_rule(refused("rose", "tulip"))
    await world.want([config_map("rose"), config_map("tulip")])
    with pytest.raises(KubeError):
        await world.reconcile()
    writes = [each for each in simulation.requests(lambda it: it.is_write) if each.name]
    order = [
        (each.cluster, each.subresource or each.verb) for each in writes if each.resource != "events.events.k8s.io"
    ]
    first = order.index(("skr", "apply"))
    assert ("kcp", "status") in order[:first]
    assert ("kcp", "patch") in order[:first]  # the finalizer
    condition = await world.condition()
    assert (condition.reason, "quota exceeded" in condition.message) == ("ApplyFailed", True)


async def test_process_that_dies_while_it_applies_leaves_nothing_behind(world: Modules, simulation: Simulation) -> None:
    rule = refused("tulip")
    simulation.cluster("skr").add_rule(rule)
    simulation.cluster("kcp").add_rule(
        kcp_is_silent := Refuse(lambda it: it.subresource == "status" and "ApplyFailed" in it.body.decode())
    )
    await world.want([config_map("rose"), config_map("tulip"), CRD])
    with pytest.raises(KubeError):
        await world.reconcile()
    assert await brought(world) == {"rose"}
    simulation.cluster("skr").remove_rule(rule)
    simulation.cluster("kcp").remove_rule(kcp_is_silent)
    await world.restart()
    await world.want([config_map("lily")])
    await world.reconcile()
    assert await brought(world) == {"lily"}
    await world.restart()
    await world.delete()
    await world.reconcile()
    assert await world.manifest() is None
    assert await brought(world) == set()


async def test_what_was_applied_before_a_failure_is_remembered_beyond_this_process(
    world: Modules, simulation: Simulation
) -> None:
    """What runs the module can't be asked for; then the process ends, and the module goes."""
    manager = {"group": "apps", "version": "v1", "kind": "Deployment", "name": "garden-manager", "namespace": SKR}
    simulation.cluster("skr").add_rule(Refuse(lambda it: it.name == "garden-manager"))
    await world.want([config_map("rose")], manager=manager)
    with pytest.raises(KubeError):
        await world.reconcile()
    assert await brought(world) == {"rose"}
    await world.restart()
    await world.delete()
    await world.reconcile()
    assert await world.manifest() is None
    assert await brought(world) == set()


async def test_removal_that_a_conversion_stops_brings_nothing_back_that_is_deleted(
    world: Modules, simulation: Simulation
) -> None:
    api_version, kind = "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"
    webhooks = await world.skr.mapper.resource(api_version, kind)
    webhook = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "calls"}, "webhooks": []}
    own = {"apiVersion": GARDENS.api_version, "kind": "Garden", "metadata": {"name": "own", "namespace": SKR}}
    await world.want([CRD, own | {"spec": {}}, webhook, config_map("rose")])
    await world.reconcile()
    await world.delete()
    why = f"conversion webhook for {GARDENS.api_version}, Kind=Garden failed: no endpoints available"
    unread = Refuse(lambda it: (it.verb, it.name) == ("get", "own"), refused=Refused(500, "InternalError", why))
    with simulation.cluster("skr").ruled_by(unread):
        for _ in range(2):
            with pytest.raises(ServerUnavailable):
                await world.reconcile()
            assert await is_gone(world.skr.get(webhooks, "calls"))
    await world.reconcile_until_gone()


@pytest.mark.parametrize("is_upgraded", [False, True])
async def test_job_that_has_deleted_itself_runs_again_with_a_new_version_alone(
    world: Modules, *, is_upgraded: bool
) -> None:
    def job(image: str) -> Document:
        pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": f"once:{image}"}]}
        spec = {"ttlSecondsAfterFinished": 0, "template": {"spec": pod}}
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "once", "namespace": SKR}, "spec": spec}

    jobs = await world.skr.mapper.resource("batch/v1", "Job")
    await world.want([config_map("rose"), job("1")])
    await world.reconcile()
    await world.skr.delete(jobs, "once", SKR)
    await world.restart()
    if is_upgraded:
        await world.want([config_map("rose"), job("2")])
    await world.reconcile(KEY, ReadScope.EVERYTHING)
    assert bool((await world.skr.list(jobs, SKR)).items) == is_upgraded


async def test_module_on_its_way_is_read_soon_and_less_often_the_longer_it_takes(world: Modules) -> None:
    deployment = next(each for each in operator("garden", "1.0.0") if each["kind"] == "Deployment")
    await world.want([deployment])
    await world.reconcile()
    soon = (await world.reconcile()).requeue_after
    assert await world.state() == ("Processing", "ManagerNotReady")
    assert soon is not None
    assert soon < 0.5
    earlier = (world.manager.clock.now() - timedelta(seconds=40)).isoformat()
    patch = {"status": {"lastOperation": {"lastUpdateTime": earlier}}}
    await world.kcp.merge_patch(MANIFESTS, KEY.name, patch, KEY.namespace, subresource="status")
    assert (await world.reconcile()).requeue_after == pytest.approx(10, abs=2)


async def test_new_version_is_reported_at_once_and_when_it_runs(world: Modules, simulation: Simulation) -> None:
    deployment = next(each for each in operator("garden", "1.0.0") if each["kind"] == "Deployment")
    new = next(each for each in operator("garden", "1.1.0") if each["kind"] == "Deployment")
    await world.want([CRD, deployment], resource=default_module_cr("garden"))
    await world.reconcile()
    await runs(world, deployment)
    await world.reconcile()
    await says(world, "Ready")
    await world.reconcile()
    assert await world.state() == ("Ready", "ModuleReady")
    await world.want([CRD, new], resource=default_module_cr("garden"))
    before = simulation.requests()[-1].number
    assert 0 < ((await world.reconcile()).requeue_after or 0) < 0.5
    assert (await world.state(), await generation_reported(world)) == (("Processing", "ManagerNotReady"), 2)
    await runs(world, new)
    await world.reconcile()
    assert (await world.state(), await generation_reported(world)) == (("Ready", "ModuleReady"), 2)
    writes = simulation.requests(lambda it: it.cluster == "kcp" and it.is_write, since=before)
    assert [each.subresource for each in writes if each.resource.startswith("manifests")] == ["status", "status"]


async def test_module_that_is_in_order_costs_one_request_and_no_write(world: Modules, simulation: Simulation) -> None:
    await world.want([CRD, *map(config_map, "abcdefgh")], resource=default_module_cr("garden"))
    await world.reconcile()
    await says(world, "Ready")
    began = datetime.now(UTC)
    again = (await world.reconcile()).requeue_after
    expected = [until_check("demo", 300.0, now=moment) for moment in (began, datetime.now(UTC))]
    assert any(again == pytest.approx(each, abs=20.0) for each in expected), "the offset may pass in between"
    assert await world.state() == ("Ready", "ModuleReady")
    before = simulation.requests()[-1].number
    await world.reconcile()
    asked = simulation.requests(since=before)
    assert [each.resource for each in asked if each.cluster == "skr"] == [f"gardens.{group_of('garden')}"]
    assert not [each for each in asked if each.is_write]


async def test_first_installation_sends_each_object_once_and_reads_none(world: Modules, simulation: Simulation) -> None:
    await world.want([CRD, *map(config_map, "abc")])
    await world.reconcile()
    asked = simulation.requests(lambda it: it.cluster == "skr" and bool(it.name))
    verbs = [each.verb for each in asked if not each.subresource and each.verb != "watch"]
    assert verbs == ["apply"] * 4


async def test_process_that_follows_one_that_died_reads_before_it_writes(
    world: Modules, simulation: Simulation
) -> None:
    await world.want([config_map("rose")])
    await world.reconcile()
    await world.restart()
    before = simulation.requests()[-1].number
    await world.reconcile(KEY, ReadScope.EVERYTHING)
    asked = simulation.requests(lambda it: it.cluster == "skr" and it.name == "rose", since=before)
    assert [each.verb for each in asked] == ["get"]


async def test_next_version_is_sent_only_where_it_differs(world: Modules, simulation: Simulation) -> None:
    await world.want(map(config_map, "abc"))
    await world.reconcile()
    before = simulation.requests()[-1].number
    await world.want([config_map("a"), config_map("b", "2"), config_map("d")])
    await world.reconcile()
    written = simulation.requests(lambda it: it.cluster == "skr" and it.is_write, since=before)
    assert sorted((each.verb, each.name) for each in written) == [("apply", "b"), ("apply", "d"), ("delete", "c")]
    assert await brought(world) == {"a", "b", "d"}


@pytest.mark.parametrize("text", ["", "---\n# nothing here\n---\n{}\n"])
async def test_link_that_has_nothing_behind_it_takes_nothing_out_of_the_cluster(world: Modules, text: str) -> None:
    await world.want([config_map("rose")])
    await world.reconcile()
    await world.want_text(text)
    await world.reconcile()
    assert await world.state() == ("Error", "ObjectsInvalid")
    assert "holds no objects" in (await world.condition()).message
    assert await brought(world) == {"rose"}


@pytest.mark.parametrize("installed", [True, False])
async def test_finalizers_of_others_are_removed_too_when_the_cluster_is_gone(
    world: Modules, *, installed: bool
) -> None:
    """Whoever set them can't do anything in the cluster either."""
    finalizers = [names.MANIFEST_FINALIZER, "label-removal-finalizer", "example.com/observer"]
    await world.want([config_map("rose")])
    if installed:
        await world.reconcile()
    await world.change({"metadata": {"finalizers": finalizers}})
    await world.delete()
    if installed:
        world.access = SkrUnreachable(ClusterUnreachable("no answer"))
        with pytest.raises(SkrUnreachable):
            await world.reconcile()
    else:
        await world.reconcile()
        waiting = await world.manifest()
        assert waiting is not None
        assert waiting.metadata.finalizers == ("example.com/observer",)
    world.access = AccessSecretMissing("demo")
    await world.reconcile()
    assert await world.manifest() is None


async def test_module_waits_for_a_cluster_that_gives_no_answer(world: Modules) -> None:
    await world.want([config_map("rose")])
    await world.reconcile()
    world.access = SkrUnreachable(ClusterUnreachable("no answer"))
    with pytest.raises(SkrUnreachable):
        await world.reconcile()
    assert await world.state() == ("Error", "ClusterUnreachable")
    await world.delete()
    with pytest.raises(SkrUnreachable):
        await world.reconcile()
    assert await world.state() == ("Deleting", "ClusterUnreachable")
    world.access = None
    await world.reconcile()
    assert await world.manifest() is None
    assert await brought(world) == set()


async def test_crd_that_leaves_the_module_stays_while_it_has_objects(world: Modules) -> None:
    await world.want([CRD, config_map("rose")])
    await world.reconcile()
    await world.skr.create(GARDENS, {"metadata": {"name": "mine"}, "spec": {}}, SKR, field_manager="user")
    await world.want([config_map("rose", "2")])
    await world.reconcile()
    assert await world.state() == ("Warning", "ObjectsInUse")
    assert "Garden kyma-system/mine" in (await world.condition()).message
    assert (await world.skr.get(GARDENS, "mine", SKR))["spec"] == {}
    await world.skr.delete(GARDENS, "mine", SKR)
    await world.reconcile()
    await world.reconcile()
    assert await world.state() == ("Ready", "ModuleReady")
    with pytest.raises(NotFound):
        await world.skr.get(CRDS, CRD["metadata"]["name"])


@pytest.mark.parametrize("has_another", [False, True])
async def test_operator_of_a_crd_that_stays_for_its_objects_stays_too(world: Modules, has_another: bool) -> None:
    """It acts on their finalizers; a version that brings another operator has that in its place."""
    deployment = next(each for each in operator("garden", "1.0.0") if each["kind"] == "Deployment")
    another = {**deployment, "metadata": {**deployment["metadata"], "name": "another"}}
    await world.want([CRD, deployment, config_map("rose")])
    await world.reconcile()
    await runs(world, deployment)
    held = {"metadata": {"name": "mine", "finalizers": ["example.com/of-the-operator"]}, "spec": {}}
    await world.skr.create(GARDENS, held, SKR, field_manager="user")
    await world.want([config_map("rose", "2"), *([another] if has_another else [])])
    for _ in range(3):
        await world.reconcile()
    assert (await world.condition()).reason == ("ManagerNotReady" if has_another else "ObjectsInUse")
    assert "waiting for deletion" not in (await world.condition("Resources")).message
    deployments = await world.skr.mapper.resource("apps/v1", "Deployment")
    there = {each["metadata"]["name"] for each in (await world.skr.list(deployments, SKR)).items}
    assert there == {"another" if has_another else deployment["metadata"]["name"]}
    await world.skr.merge_patch(GARDENS, "mine", {"metadata": {"finalizers": None}}, SKR)
    await world.skr.delete(GARDENS, "mine", SKR)
    for _ in range(3):
        await world.reconcile()
    there = {each["metadata"]["name"] for each in (await world.skr.list(deployments, SKR)).items}
    assert there == ({"another"} if has_another else set())


async def test_operator_leaves_with_a_crd_that_has_objects_of_the_module_alone(world: Modules) -> None:
    deployment = next(each for each in operator("garden", "1.0.0") if each["kind"] == "Deployment")
    garden = {"apiVersion": GARDENS.api_version, "kind": "Garden", "metadata": {"name": "own"}, "spec": {}}
    await world.want([CRD, deployment, garden, config_map("rose")])
    await world.reconcile()
    await runs(world, deployment)
    live = await world.skr.get(GARDENS, "own", SKR)
    kind = {"apiVersion": GARDENS.api_version, "kind": "Garden"}
    owner = {**kind, "name": "own", "uid": live["metadata"]["uid"], "controller": True}
    made = {"metadata": {"name": "made", "ownerReferences": [owner]}, "spec": {}}
    await world.skr.create(GARDENS, made, SKR, field_manager="operator")
    await world.want([config_map("rose", "2")])
    for _ in range(4):
        await world.reconcile()
    assert await world.state() == ("Ready", "ModuleReady")
    with pytest.raises(NotFound):
        await world.skr.get(CRDS, CRD["metadata"]["name"])


async def test_module_is_not_ready_while_one_of_its_objects_is_being_deleted(world: Modules) -> None:
    held = config_map("rose", finalizers=["example.com/held"])
    await world.skr.create(CONFIG_MAPS, held, SKR, field_manager="user")
    await world.want([config_map("rose"), config_map("tulip")])
    await world.reconcile()
    assert await world.state() == ("Ready", "ModuleReady")
    await world.skr.delete(CONFIG_MAPS, "rose", SKR)
    await world.reconcile(KEY, ReadScope.EVERYTHING)
    assert await world.state() == ("Processing", "ObjectsTerminating")
    assert (await world.condition()).message == "waiting for deletion of ConfigMap rose"
    await world.skr.merge_patch(CONFIG_MAPS, "rose", {"metadata": {"finalizers": None}}, SKR)
    await world.reconcile()
    assert (await world.state(), await brought(world)) == (("Ready", "ModuleReady"), {"rose", "tulip"})


@pytest.mark.parametrize(
    ("mark", "stays"),
    [
        pytest.param({"annotations": {names.IS_UNMANAGED: "true"}}, True, id="unmanaged"),
        pytest.param({"labels": {names.SKIP_RECONCILIATION: "true"}}, False, id="skipped"),
    ],
)
async def test_skipped_or_unmanaged_module_is_not_read_and_an_unmanaged_one_stays(
    world: Modules, simulation: Simulation, mark: Document, *, stays: bool
) -> None:
    await world.want([config_map("rose"), config_map("tulip")])
    await world.reconcile()
    await world.change({"metadata": mark})
    await world.skr.delete(CONFIG_MAPS, "rose", SKR)
    await world.reconcile()
    before = simulation.requests()[-1].number
    await world.reconcile()
    assert not simulation.requests(lambda it: it.cluster == "skr", since=before)
    await world.delete()
    await world.reconcile()
    assert await world.manifest() is None
    assert [each["metadata"]["name"] for each in (await world.skr.list(CONFIG_MAPS, SKR)).items] == ["tulip"] * stays


async def test_module_cr_that_is_refused_is_reported_and_tried_again(world: Modules, simulation: Simulation) -> None:
    def creates(request: ApiRequest) -> bool:
        return request.method == "POST" and request.kind is not None and request.kind.kind == "Garden"

    rule = Refuse(creates, refused=Refused(403, "Forbidden", "the webhook of the garden is not there"))
    simulation.cluster("skr").add_rule(rule)
    await world.want([CRD], resource=default_module_cr("garden"))
    result = await world.reconcile()
    assert await world.state() == ("Error", "ModuleCRRefused")
    assert "the webhook of the garden is not there" in (await world.condition()).message
    assert result.requeue_after == 2.0
    simulation.cluster("skr").remove_rule(rule)
    await world.reconcile()
    assert (await world.condition("ModuleCR")).status == "True"


async def test_module_cr_deleted_by_its_user_is_not_restored_after_a_cluster_failed(
    world: Modules, simulation: Simulation
) -> None:
    await world.want([CRD], resource=default_module_cr("garden"))
    await world.reconcile()
    await world.skr.delete(GARDENS, "default", SKR)
    trouble = Refuse(lambda it: it.kind is not None and it.kind.kind == "Garden")
    simulation.cluster("skr").add_rule(trouble)
    await world.reconcile()
    assert await world.state() == ("Error", "ModuleCRRefused")
    assert "can't be read: " in (await world.condition()).message
    simulation.cluster("skr").remove_rule(trouble)
    await world.reconcile()
    assert await world.state() == ("Ready", "ModuleReady")
    assert not (await world.skr.list(GARDENS, SKR)).items


async def test_module_cr_may_have_no_namespace(world: Modules) -> None:
    definition = {**CRD, "spec": {**CRD["spec"], "scope": "Cluster"}}
    await world.want([definition], resource=default_module_cr("garden"))
    await world.change({"metadata": {"annotations": {names.IS_CLUSTER_SCOPED: "true"}}})
    await world.reconcile()
    gardens = Resource.dynamic(group_of("garden"), "v1", "Garden", "gardens", namespaced=False)
    assert (await world.skr.get(gardens, "default"))["spec"] == {"verbosity": "info"}
    await world.delete()
    await world.reconcile()
    await world.reconcile()
    assert await world.manifest() is None


async def test_object_that_is_somebody_elses_by_now_is_not_deleted(world: Modules) -> None:
    await world.want([config_map("rose"), config_map("tulip")])
    await world.reconcile()
    taken = {"metadata": {"annotations": {names.OWNED_BY: "kcp-system/demo-orchard"}}}
    await world.skr.merge_patch(CONFIG_MAPS, "rose", taken, SKR)
    await world.delete()
    await world.reconcile()
    assert await world.manifest() is None
    assert await brought(world) == {"rose"}


async def test_images_of_the_landscape_are_what_the_cluster_gets(world: Modules) -> None:
    local = "eu.registry.example.com/restricted/garden-manager:1.0.0"
    known = [each for each in operator("garden", "1.0.0") if each["kind"] != "RuntimeClass"]
    await world.want(known, localizedImages=[local])
    await world.reconcile()
    deployments = await world.skr.mapper.resource("apps/v1", "Deployment")
    deployment = await world.skr.get(deployments, "garden-manager", SKR)
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == local


async def test_event_that_overtakes_its_write_is_not_lost(world: Modules) -> None:
    await world.want([config_map("rose")])
    await world.reconcile()
    live = await world.skr.get(CONFIG_MAPS, "rose", SKR)
    reference = ObjectReference("", "ConfigMap", SKR, "rose")
    metadata = live["metadata"]
    changed = ObjectChanged("demo", reference, "UPDATE", metadata["uid"], metadata["resourceVersion"])
    early = await world.reconcile(KEY, changed)
    assert early.requeue_after is not None
    assert early.requeue_after < 1
    await world.skr.merge_patch(CONFIG_MAPS, "rose", {"data": {"value": "mine"}}, SKR)
    assert (await world.reconcile()).requeue_after == UNTIL_CHECK
    assert (await world.skr.get(CONFIG_MAPS, "rose", SKR))["data"] == {"value": "1"}


async def test_event_of_an_object_reads_that_object_and_not_all(world: Modules, simulation: Simulation) -> None:
    await world.want([config_map("rose"), config_map("lily"), config_map("tulip")])
    await world.reconcile()
    metadata = (await world.skr.get(CONFIG_MAPS, "lily", SKR))["metadata"]
    reference = ObjectReference("", "ConfigMap", SKR, "lily")
    deleted = ObjectChanged("demo", reference, "DELETE", metadata["uid"], metadata["resourceVersion"])
    await world.skr.delete(CONFIG_MAPS, "lily", SKR)
    began = simulation.records.count
    assert (await world.reconcile(KEY, deleted)).requeue_after == UNTIL_CHECK
    read = simulation.cluster("skr").requests(lambda record: record.verb == "get", since=began)
    assert {record.name for record in read} == {"lily"}
    assert (await world.skr.get(CONFIG_MAPS, "lily", SKR))["data"] == {"value": "1"}


async def test_object_that_is_changed_after_each_repair_is_left_until_the_interval(world: Modules) -> None:
    await world.want([config_map("rose")])
    await world.reconcile()
    reference = ObjectReference("", "ConfigMap", SKR, "rose")
    for number in range(REPAIRS_IN_A_ROW + 1):
        metadata = (await world.skr.get(CONFIG_MAPS, "rose", SKR))["metadata"]
        changed = ObjectChanged("demo", reference, "UPDATE", metadata["uid"], metadata["resourceVersion"])
        patch = {"data": {"value": f"mine {number}"}}
        await world.skr.merge_patch(CONFIG_MAPS, "rose", patch, SKR, field_manager="kubectl-edit")
        assert (await world.reconcile(KEY, changed)).requeue_after == UNTIL_CHECK
    assert (await world.skr.get(CONFIG_MAPS, "rose", SKR))["data"] == patch["data"]
    (note,) = [note for reason, note in world.events.in_kcp if reason == CONTESTED]
    assert "ConfigMap kyma-system/rose" in note
    assert "'kubectl-edit'" in note


async def test_event_is_recorded_where_trouble_begins_and_ends(world: Modules) -> None:
    await world.want([CRD], resource=default_module_cr("garden"))
    for state in ("Ready", "Ready", "Error", "Error", "Ready"):
        await world.reconcile()
        await says(world, state)
    await world.reconcile()
    await world.reconcile()
    assert [reason for reason, _ in world.events.in_kcp] == ["ModuleCRError", "ModuleReady"]


@pytest.mark.parametrize(
    "template",
    [
        builders.template("garden", "1.0.0"),
        builders.template("garden", "1.0.0", channel="fast"),
        builders.template("garden", "1.0.0", mandatory=True, name="garden-for-all"),
    ],
    ids=["by version", "by channel", "mandatory"],
)
async def test_values_of_the_template_decide_where_it_names_some(world: Modules, template: ModuleTemplate) -> None:
    check = CustomStateCheck(json_path="status.health", value="green", mapped_state=State.READY)
    spec = msgspec.structs.replace(template.spec, custom_state_check=(check,))
    world.templates = [msgspec.structs.replace(template, spec=spec)]
    await world.want([CRD], resource=default_module_cr("garden"), version="1.0.0")
    await world.reconcile()
    assert await world.state() == ("Processing", "ModuleCRProcessing")
    await world.skr.merge_patch(GARDENS, "default", {"status": {"health": "green"}}, SKR, subresource="status")
    await world.reconcile()
    assert await world.state() == ("Ready", "ModuleReady")


async def test_manifest_written_meanwhile_is_read_again_before_anything_is_applied(
    world: Modules, simulation: Simulation
) -> None:
    def sets_finalizer(request: ApiRequest) -> bool:
        return request.cluster == "kcp" and request.verb == "patch" and request.name == KEY.name

    conflict = Refused(409, "Conflict", "the object has been modified")
    simulation.cluster("kcp").add_rule(Refuse(sets_finalizer, refused=conflict))
    await world.want([config_map("rose")])
    with pytest.raises(RecordingFailed) as raised:
        await world.reconcile()
    assert isinstance(raised.value.__cause__, Conflict)
    assert not simulation.requests(lambda it: it.cluster == "skr" and it.is_write)


async def test_kind_that_is_not_served_is_reported(world: Modules) -> None:
    stray = {"apiVersion": "nobody.example.com/v1", "kind": "Stray", "metadata": {"name": "one"}}
    await world.want([config_map("rose"), stray])
    with pytest.raises(KindUnknown):
        await world.reconcile()
    assert await world.state() == ("Error", "ApplyFailed")
    assert await brought(world) == {"rose"}


async def test_process_that_begins_does_not_ask_for_what_was_in_order_all_at_once(
    world: Modules, simulation: Simulation
) -> None:
    await world.want([CRD, *map(config_map, "abcdefgh")], resource=default_module_cr("garden"))
    await world.reconcile()
    await says(world, "Ready")
    await world.reconcile()
    await world.restart()
    before = simulation.requests()[-1].number
    result = await world.reconcile()
    asked = simulation.requests(lambda it: it.cluster == "skr", since=before)
    assert [each.resource for each in asked] == [f"gardens.{group_of('garden')}"]
    assert result.requeue_after is not None
    assert result.requeue_after <= 300.0
    await world.skr.delete(CONFIG_MAPS, "a", SKR)
    await world.reconcile(KEY, ReadScope.EVERYTHING)
    assert "a" in await brought(world)


async def test_process_that_begins_relies_on_the_status_of_a_module_until_its_check(
    world: Modules, simulation: Simulation
) -> None:
    await name_manifest(world)
    await world.want([config_map("rose")])
    await world.reconcile()
    await world.restart()
    await world.see(KYMAS)
    before = simulation.requests()[-1].number
    first, again = await world.reconcile(), await world.reconcile()
    assert first.requeue_after is not None
    assert again.requeue_after == pytest.approx(first.requeue_after, abs=1.0)  # the same check
    assert first.requeue_after <= 300.0
    assert not simulation.requests(lambda it: it.cluster == "skr", since=before)

    await world.skr.delete(CONFIG_MAPS, "rose", SKR)
    world.controller.state_or_new(KEY).next_check -= 300.0
    await world.reconcile()
    assert await brought(world) == {"rose"}


async def test_process_that_begins_reads_the_object_that_changed_before(world: Modules) -> None:
    await name_manifest(world)
    await world.want([config_map("rose")])
    await world.reconcile()
    await world.restart()
    await world.see(KYMAS)
    await world.reconcile()
    await world.skr.delete(CONFIG_MAPS, "rose", SKR)
    await world.reconcile(KEY, ObjectChanged("demo", ObjectReference("", "ConfigMap", SKR, "rose"), "DELETE", "", ""))
    assert await brought(world) == {"rose"}


async def test_module_that_is_managed_again_is_put_right(world: Modules) -> None:
    await world.want([config_map("rose")])
    await world.reconcile()
    await world.change({"metadata": {"annotations": {names.IS_UNMANAGED: "true"}}})
    await world.reconcile()
    await world.skr.delete(CONFIG_MAPS, "rose", SKR)
    await world.change({"metadata": {"annotations": {names.IS_UNMANAGED: None}}})
    await world.reconcile()
    assert await brought(world) == {"rose"}


async def test_manifest_is_orphaned_until_the_status_of_its_kyma_names_it(
    world: Modules, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statuses, "ORPHANED_AFTER", timedelta(0))
    await world.want([config_map("rose")])
    await world.reconcile()
    assert await world.state() == ("Error", "Orphaned")
    assert await brought(world) == set()
    await name_manifest(world)
    await world.see(KYMAS)
    await world.reconcile()
    assert await world.state() == ("Ready", "ModuleReady")
    assert await brought(world) == {"rose"}


async def test_unmanaged_module_is_left_to_its_users_once_and_managed_again(
    world: Modules, simulation: Simulation
) -> None:
    async def managers() -> list[str | None]:
        found = [
            await world.skr.get(resource, name, SKR)
            for resource, name in ((CONFIG_MAPS, "rose"), (CONFIG_MAPS, "tulip"), (GARDENS, "default"))
        ]
        return [each["metadata"].get("labels", {}).get(names.MANAGED_BY) for each in found]

    meadow = ObjectKey(KEY.namespace, "demo-meadow")
    await world.want([config_map("tulip")], meadow)
    await world.reconcile(meadow)
    await world.want([CRD, config_map("rose"), config_map("tulip")], resource=default_module_cr("garden"))
    await world.reconcile()
    assert await managers() == [names.LIFECYCLE_MANAGER] * 3
    await world.change({"metadata": {"annotations": {names.IS_UNMANAGED: "true"}}})
    await world.reconcile()
    assert await world.state() == ("Unmanaged", "ModuleUnmanaged")
    assert await managers() == [None, names.LIFECYCLE_MANAGER, None], "another module manages what both have"
    manifest = await world.manifest()
    assert manifest is not None
    assert len(manifest.status.synced) == 3
    await world.restart()
    before = simulation.requests()[-1].number
    await world.reconcile()
    assert not simulation.requests(lambda it: it.is_write or it.cluster == "skr", since=before)
    await world.change({"metadata": {"annotations": {names.IS_UNMANAGED: None}}})
    await world.reconcile()
    assert (await managers())[0] == names.LIFECYCLE_MANAGER


async def test_unmanaged_module_that_is_kept_from_the_former_version_is_released(world: Modules) -> None:
    await world.want([config_map("rose")])
    await world.reconcile()
    marks = {names.SKIPPED_BY: names.FORMER_VERSION, names.IS_UNMANAGED: "true"}
    await world.change({"metadata": {"labels": {names.SKIP_RECONCILIATION: "true"}, "annotations": marks}})
    await world.reconcile()
    metadata = (await world.skr.get(CONFIG_MAPS, "rose", SKR))["metadata"]
    assert not {names.MANAGED_BY, names.WATCHED_BY} & metadata["labels"].keys()
    assert names.DISCLAIMER not in metadata["annotations"], "nothing is reverted any more"


async def test_release_that_the_cluster_does_not_answer_is_made_up_for(world: Modules) -> None:
    await world.want([config_map("rose")])
    await world.reconcile()
    await world.change({"metadata": {"annotations": {names.IS_UNMANAGED: "true"}}})
    world.access = SkrUnreachable(ClusterUnreachable("no answer"))
    with pytest.raises(SkrUnreachable):
        await world.reconcile()
    world.access = None
    await world.reconcile()
    assert await world.state() == ("Unmanaged", "ModuleUnmanaged")
    assert names.MANAGED_BY not in (await world.skr.get(CONFIG_MAPS, "rose", SKR))["metadata"]["labels"]


async def test_default_module_cr_renamed_by_a_new_version_is_removed_as_our_own(world: Modules) -> None:
    other = {**default_module_cr("garden"), "metadata": {"name": "main"}}
    for default in (default_module_cr("garden"), other):
        await world.want([CRD], resource=default)
        await world.reconcile()
    found = await world.skr.list(GARDENS, SKR)
    assert {each["metadata"]["name"] for each in found.items} == {"default", "main"}
    await world.delete()
    for _ in range(3):
        await world.reconcile()
    assert await world.manifest() is None


async def test_default_module_cr_that_a_new_version_lacks_goes_with_the_module(world: Modules) -> None:
    await world.want([CRD], resource=default_module_cr("garden"))
    await world.reconcile()
    await world.want([CRD], resource=None)
    await world.reconcile()
    assert await world.state() == ("Ready", "ModuleReady")
    await world.delete()
    for _ in range(3):
        await world.reconcile()
    assert await world.manifest() is None


async def test_default_module_cr_of_a_former_kind_is_deleted_with_the_module(world: Modules) -> None:
    orchard = operator("orchard", "1.0.0")[0]
    await world.want([CRD], resource=default_module_cr("garden"))
    await world.reconcile()
    await world.want([CRD, orchard], resource=default_module_cr("orchard"))
    await world.reconcile()
    await world.skr.create(GARDENS, {"metadata": {"name": "mine"}, "spec": {}}, SKR, field_manager="user")
    await world.delete()
    await world.reconcile()
    assert await world.state() == ("Deleting", "ModuleCRsInUse")
    assert "Garden kyma-system/mine" in (await world.condition()).message
    assert "default" not in (await world.condition()).message
    await world.skr.delete(GARDENS, "mine", SKR)
    for _ in range(3):
        await world.reconcile()
    assert await world.manifest() is None


async def test_module_whose_removal_is_blocked_gets_new_versions(world: Modules) -> None:
    await world.want([CRD, config_map("rose")], resource=default_module_cr("garden"))
    await world.reconcile()
    await world.skr.merge_patch(GARDENS, "default", {"metadata": {"finalizers": ["example.com/operator"]}}, SKR)
    await world.delete()
    await world.reconcile()
    assert await world.state() == ("Deleting", "Deleting")
    await world.want([CRD, config_map("tulip"), config_map("rose", "2")], version="2.0.0")
    await world.reconcile()
    assert await brought(world) == {"rose", "tulip"}
    assert (await world.skr.get(CONFIG_MAPS, "rose", SKR))["data"] == {"value": "2"}
    await world.want([CRD, config_map("tulip")], version="2.0.1")
    await world.reconcile()
    assert await brought(world) == {"tulip"}
    assert await world.state() == ("Deleting", "Deleting")
    assert (await world.skr.get(GARDENS, "default", SKR))["metadata"]["deletionTimestamp"]
    await world.skr.merge_patch(GARDENS, "default", {"metadata": {"finalizers": []}}, SKR)
    await world.reconcile_until_gone()
    assert await brought(world) == set()
    with pytest.raises(NotFound):
        await world.skr.get(CRDS, CRD["metadata"]["name"])


async def test_what_a_text_says_twice_is_applied_as_by_kubectl_and_named(world: Modules) -> None:
    plain = config_map("rose", "second")
    del plain["metadata"]["namespace"]
    wide = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": []}
    roles = [wide | {"metadata": {"name": "twice", "namespace": each}} for each in ("x", "y")]
    text = as_text([config_map("rose", "first"), plain, *roles]) + "---\n"
    await world.want_text(text + as_text([config_map("tulip", "1")]).rstrip("\n") + "\n  value: '2'\n")
    await world.reconcile()
    assert await world.state() == ("Ready", "ModuleReady")
    message = (await world.condition("Resources")).message.split("; ")
    assert message[0] == "3 objects are there"
    assert [each.split(": ")[0] for each in message if each.startswith("document")] == [
        "document 4",
        "document 1",
        "document 3",
    ]
    assert "the key 'value' stands there again" in message[1]
    values = {name: (await world.skr.get(CONFIG_MAPS, name, SKR))["data"]["value"] for name in ("rose", "tulip")}
    assert values == {"rose": "first", "tulip": "2"}
    before = await world.condition("Resources")
    await world.reconcile(KEY, ReadScope.EVERYTHING)
    await world.restart()
    await world.reconcile()
    assert await world.condition("Resources") == before


async def test_version_that_can_not_be_applied_does_not_block_the_removal(
    world: Modules, simulation: Simulation
) -> None:
    simulation.cluster("skr").add_rule(refused("tulip"))
    await world.want([CRD, config_map("rose")])
    await world.reconcile()
    await world.skr.create(GARDENS, {"metadata": {"name": "mine"}, "spec": {}}, SKR, field_manager="user")
    await world.delete()
    await world.want([CRD, config_map("tulip")], version="2.0.0")
    with pytest.raises(KubeError):
        await world.reconcile()
    assert await world.state() == ("Deleting", "ModuleCRsInUse")
    assert (await world.condition("Resources")).reason == "ApplyFailed"
    assert "quota exceeded" in (await world.condition("Resources")).message
    await world.want_text("nothing: here", version="3.0.0")
    await world.reconcile()
    assert await brought(world) == {"rose"}
    assert (await world.condition("Resources")).reason == "ObjectsInvalid"
    await world.skr.delete(GARDENS, "mine", SKR)
    await world.reconcile_until_gone()
    assert await brought(world) == set()


@pytest.mark.parametrize("upgraded", [False, True])
async def test_process_that_begins_during_a_removal_applies_only_what_is_new(
    world: Modules, simulation: Simulation, *, upgraded: bool
) -> None:
    await world.want([CRD, config_map("rose")])
    await world.reconcile()
    await world.skr.create(GARDENS, {"metadata": {"name": "mine"}, "spec": {}}, SKR, field_manager="user")
    await world.delete()
    if upgraded:
        await world.want([CRD, config_map("rose", "2")], version="2.0.0")
    await world.restart()
    before = simulation.requests()[-1].number
    await world.reconcile()
    assert await world.state() == ("Deleting", "ModuleCRsInUse")
    written = simulation.requests(lambda it: it.is_write and it.cluster == "skr", since=before)
    assert {each.name for each in written} >= {"rose"} if upgraded else not written


async def test_blocked_removal_costs_no_more_writes_once_its_version_is_applied(
    world: Modules, simulation: Simulation
) -> None:
    await world.want([CRD, config_map("rose")])
    await world.reconcile()
    await world.skr.create(GARDENS, {"metadata": {"name": "mine"}, "spec": {}}, SKR, field_manager="user")
    await world.delete()
    await world.reconcile()
    before = simulation.requests()[-1].number
    await world.reconcile()
    assert not simulation.requests(lambda it: it.is_write, since=before)
    await world.restart()
    await world.reconcile()
    assert await world.state() == ("Deleting", "ModuleCRsInUse")
    assert await brought(world) == {"rose"}


async def test_what_another_module_made_does_not_go_with_this_one(world: Modules) -> None:
    await world.want([CRD], resource=default_module_cr("garden"))
    await world.reconcile()
    metadata = {
        "name": "synced",
        "labels": {names.MANAGED_BY: names.LIFECYCLE_MANAGER},
        "annotations": {names.OWNED_BY: "kcp-system/demo-orchard"},
    }
    await world.skr.create(GARDENS, {"metadata": metadata, "spec": {}}, SKR, field_manager="lifecycle-manager")
    await world.delete()
    await world.reconcile()
    assert "Garden kyma-system/synced" in (await world.condition()).message
    assert (await world.skr.get(GARDENS, "synced", SKR))["metadata"].get("deletionTimestamp") is None


@pytest.mark.parametrize("propagation", ["Background", "Foreground", "Orphan"])
async def test_module_goes_whichever_way_its_manifest_is_deleted(world: Modules, propagation: Propagation) -> None:
    await world.want([CRD, config_map("rose")], resource=default_module_cr("garden"))
    await world.reconcile()
    await world.delete(propagation)
    for _ in range(3):
        await world.reconcile()
    assert await brought(world) == set()
    with pytest.raises(NotFound):
        await world.skr.get(CRDS, CRD["metadata"]["name"])
    left = await world.manifest()  # what else holds it is for the garbage collector of the control plane
    assert left is None or names.MANIFEST_FINALIZER not in left.metadata.finalizers


async def test_storage_is_waited_for_where_a_module_names_no_manager(world: Modules) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    metadata = {"name": "seeds", "namespace": SKR}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
    await world.want([claim, config_map("rose")])
    for _ in range(2):
        await world.reconcile()
    assert await world.state() == ("Processing", "ManagerNotReady")
    assert "PersistentVolumeClaim kyma-system/seeds" in (await world.condition()).message
    claims = await world.skr.mapper.resource("v1", "PersistentVolumeClaim")
    await world.skr.merge_patch(claims, "seeds", {"status": {"phase": "Bound"}}, SKR, subresource="status")
    await world.reconcile()
    assert await world.state() == ("Ready", "ModuleReady")


async def test_job_that_was_cleared_away_is_no_trouble(world: Modules) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "it", "image": "it:1"}]}}
    metadata = {"name": "seeds", "namespace": SKR}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}}
    await world.want([job])
    for _ in range(2):
        await world.reconcile()
    assert await world.state() == ("Processing", "ManagerNotReady")
    jobs = await world.skr.mapper.resource("batch/v1", "Job")
    await world.skr.delete(jobs, "seeds", SKR)
    await world.reconcile()
    assert await world.state() == ("Ready", "ModuleReady")


async def test_module_whose_objects_are_slow_to_come_is_on_its_way(
    world: Modules, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def awaited(*_: Any) -> Any:
        raise SourceAwaited("the layer is being fetched")

    await world.want([config_map("rose")])
    with monkeypatch.context() as patched:
        patched.setattr(world.store, "objects", awaited)
        assert (await world.reconcile()).requeue_after == 5.0
    assert await world.state() == ("Processing", "SourceAwaited")
    await world.reconcile()
    assert await world.state() == ("Ready", "ModuleReady")


async def test_object_that_users_had_stays_when_the_process_ends_between_record_and_apply(
    world: Modules, simulation: Simulation
) -> None:
    await world.skr.create(CONFIG_MAPS, config_map("mine"), SKR, field_manager="user")
    await world.want(map(config_map, ["mine", "new"]))
    with simulation.cluster("skr").ruled_by(refused("mine", "new")), pytest.raises(KubeError):
        await world.reconcile()
    await world.restart()
    await world.reconcile()
    manifest = await world.manifest()
    assert manifest is not None
    assert [each.name for each in manifest.status.found] == ["mine"]
    await world.delete()
    await world.reconcile()
    assert await world.manifest() is None
    assert {each["metadata"]["name"] for each in (await world.skr.list(CONFIG_MAPS, SKR)).items} == {"mine"}


async def test_object_that_may_not_be_read_is_the_modules_once_an_apply_has_created_it(
    world: Modules, simulation: Simulation
) -> None:
    unreadable = Refuse(lambda it: it.method == "GET" and it.name == "a", refused=Refused(403, "Forbidden", "no"))
    await world.want(map(config_map, ["a"]))
    with simulation.cluster("skr").ruled_by(unreadable):
        await world.reconcile()
    manifest = await world.manifest()
    assert manifest is not None
    assert ([each.name for each in manifest.status.synced], manifest.status.found) == (["a"], ())


async def test_module_that_comes_while_another_goes_leaves_what_users_had_too(world: Modules) -> None:
    await world.skr.create(CONFIG_MAPS, config_map("mine"), SKR, field_manager="user")
    await world.want(map(config_map, ["mine"]))
    await world.reconcile()
    await world.delete()
    meadow = ObjectKey(KEY.namespace, "demo-meadow")
    await world.want(map(config_map, ["mine"]), meadow)
    await world.reconcile(meadow)
    await world.reconcile()
    await world.delete(key=meadow)
    await world.reconcile(meadow)
    assert await world.manifest(meadow) is None
    assert [each["metadata"]["name"] for each in (await world.skr.list(CONFIG_MAPS, SKR)).items] == ["mine"]
