"""What only a real API server does to a module: kinds that move to another group, a quota, definitions to be served."""

from contextlib import suppress
from typing import Any

import pytest

from kube_runtime import AlreadyExists, Forbidden, KindUnknown, NotFound, ObjectKey, Resource
from lifecycle_manager.contract.resources import NAMESPACES
from lifecycle_manager_api import names
from tests.kinds import CONFIG_MAPS, EVENTS, PODS, SERVICE_ACCOUNTS
from tests.manifest_clusters import KEY, Modules
from tests.modules import Document, operator
from tests.waiting import eventually

SKR = names.SKR_NAMESPACE
QUOTAS: Resource[Document] = Resource.dynamic("", "v1", "ResourceQuota", "resourcequotas", namespaced=True)
JOBS: Resource[Document] = Resource.dynamic("batch", "v1", "Job", "jobs", namespaced=True)
MEADOW = ObjectKey(KEY.namespace, "demo-meadow")
SEEN_AT = "2026-11-01T12:00:00.000000Z"


def thing(api_version: str, kind: str, name: str, **content: Any) -> Document:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": SKR}, **content}


def of_group(group: str, value: str) -> list[Document]:
    """Return a definition and an object of it, in this group."""
    definition = operator("meadow", "1.0.0", properties=2)[0]
    spec = {**definition["spec"], "group": group}
    return [
        {**definition, "metadata": {"name": f"meadows.{group}"}, "spec": spec},
        thing(f"{group}/v1", "Meadow", "north", spec={"field0": value}),
    ]


async def remove(world: Modules) -> None:
    await world.delete()
    await world.reconcile_until_gone()


async def test_namespace_that_two_modules_bring_goes_with_the_last_one(world: Modules) -> None:
    """The first module no longer has it in a new version, the second one is removed."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shared-by-two"}}
    for key in (MEADOW, KEY):
        await world.want([namespace, thing("v1", "ConfigMap", key.name)], key)
        await world.reconcile(key)
    await world.want([thing("v1", "ConfigMap", "another")])
    await world.reconcile()
    assert await world.state() == ("Ready", "ModuleReady")
    live = (await world.skr.get(NAMESPACES, "shared-by-two"))["metadata"]
    assert ("deletionTimestamp" in live, live["labels"][names.MODULE_NAME]) == (False, "meadow")
    await world.delete(key=MEADOW)
    await world.reconcile(MEADOW)
    # Without its controllers a server does not finish a Namespace: that it goes is all that can be seen.
    assert (await world.skr.get(NAMESPACES, "shared-by-two"))["metadata"]["deletionTimestamp"]
    await remove(world)


async def test_kind_that_moves_to_another_group_leaves_nothing_behind_and_loses_nothing(world: Modules) -> None:
    await world.want([*of_group("old.example.com", "1"), thing("v1", "ConfigMap", "meadow", data={"version": "1"})])
    await world.reconcile()
    assert await world.state() == ("Ready", "ModuleReady")
    await world.want([*of_group("new.example.com", "2"), thing("v1", "ConfigMap", "meadow", data={"version": "2"})])

    async def old_one_is_gone() -> bool:
        await world.try_reconcile()
        world.skr.mapper.forget()
        try:
            await world.skr.get(await world.skr.mapper.resource("old.example.com/v1", "Meadow"), "north", SKR)
        except (KindUnknown, NotFound):
            return await world.state() == ("Ready", "ModuleReady")
        return False

    await eventually(old_one_is_gone, within=60)
    moved = await world.skr.mapper.resource("new.example.com/v1", "Meadow")
    assert (await world.skr.get(moved, "north", SKR))["spec"] == {"field0": "2"}
    await remove(world)


async def test_objects_of_users_keep_the_definition_of_the_group_that_a_kind_has_left(world: Modules) -> None:
    await world.want(of_group("ancient.example.com", "1"))
    await world.reconcile()
    left = await world.skr.mapper.resource("ancient.example.com/v1", "Meadow")
    await world.skr.create(left, {"metadata": {"name": "mine"}, "spec": {}}, SKR, field_manager="user")
    await world.want(of_group("modern.example.com", "2"))
    await world.reconcile_until(("Warning", "ObjectsInUse"))
    assert "Meadow kyma-system/mine" in (await world.condition()).message
    assert (await world.skr.get(left, "mine", SKR))["spec"] == {}
    await world.skr.delete(left, "mine", SKR)
    await remove(world)


async def test_object_that_the_server_knows_in_both_groups_is_not_pruned_from_the_old_one(world: Modules) -> None:
    about = {"apiVersion": "v1", "kind": "Namespace", "name": SKR, "namespace": SKR}
    event = {"reason": "Installed", "action": "Install", "type": "Normal", "eventTime": SEEN_AT}
    old = {**event, "involvedObject": about, "reportingComponent": "meadow", "reportingInstance": "meadow-0"}
    new = {**event, "regarding": about, "reportingController": "meadow", "reportingInstance": "meadow-0"}
    await world.want([thing("v1", "Event", "meadow.first", **old)])
    await world.reconcile()
    before = await world.skr.get(EVENTS, "meadow.first", SKR)
    await world.want([thing("events.k8s.io/v1", "Event", "meadow.first", **new)])
    await world.reconcile()
    assert await world.state() == ("Ready", "ModuleReady")
    after = await world.skr.get(EVENTS, "meadow.first", SKR)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    manifest = await world.manifest()
    assert manifest is not None
    assert [each.group for each in manifest.status.synced] == ["events.k8s.io"]
    await remove(world)
    with pytest.raises(NotFound):
        await world.skr.get(EVENTS, "meadow.first", SKR)


async def test_object_that_a_quota_refuses_is_reported_and_holds_nothing_else_back(world: Modules) -> None:
    await world.skr.create(QUOTAS, thing("v1", "ResourceQuota", "few"), SKR, field_manager="operator")
    hard = {"count/jobs.batch": "0"}
    quota = {"spec": {"hard": hard}}
    await world.skr.merge_patch(QUOTAS, "few", quota, SKR)
    used = {"status": {"hard": hard, "used": {"count/jobs.batch": "0"}}}
    await world.skr.merge_patch(QUOTAS, "few", used, SKR, subresource="status")
    container = {"name": "it", "image": "registry.example.com/it:1"}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    job = thing("batch/v1", "Job", "meadow-seeds", spec={"template": template})
    await world.want([thing("v1", "ConfigMap", "meadow"), job])
    try:
        with pytest.raises(Forbidden, match="exceeded quota"):
            await world.reconcile()
        assert await world.state() == ("Error", "ApplyFailed")
        message = (await world.condition()).message
        assert "Job kyma-system/meadow-seeds" in message
        assert "exceeded quota: few" in message
        assert await world.skr.get(CONFIG_MAPS, "meadow", SKR)
    finally:
        await world.skr.delete(QUOTAS, "few", SKR)
    await world.reconcile()
    assert await world.state() == ("Processing", "ManagerNotReady")
    assert "Job kyma-system/meadow-seeds: it has not started yet" in (await world.condition()).message
    started = {"status": {"startTime": "2026-11-01T12:00:00Z"}}
    await world.skr.merge_patch(JOBS, "meadow-seeds", started, SKR, subresource="status")
    await world.reconcile()
    assert await world.state() == ("Ready", "ModuleReady")
    await remove(world)


PAUSED = {"containers": [{"name": "manager", "image": "registry.example.com/absent:1"}]}


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
async def test_image_that_can_not_be_pulled_is_an_error_at_once(world: Modules, kind: str) -> None:
    labels = {"app": kind.lower()}
    template = {"metadata": {"labels": labels}, "spec": PAUSED}
    spec: Document = {"selector": {"matchLabels": labels}, "template": template}
    spec |= {"serviceName": "sown"} if kind == "StatefulSet" else {}
    await world.want([thing("apps/v1", kind, "sown", spec=spec)])
    for _ in range(2):
        await world.reconcile()
    assert await world.state() == ("Processing", "ManagerNotReady")
    workloads = await world.skr.mapper.resource("apps/v1", kind)
    generation = (await world.skr.get(workloads, "sown", SKR))["metadata"]["generation"]
    status = {"observedGeneration": generation, "replicas": 1}
    await world.skr.merge_patch(workloads, "sown", {"status": status}, SKR, subresource="status")
    pod = {**thing("v1", "Pod", "sown-0", spec=PAUSED), "metadata": {"name": "sown-0", "labels": labels}}
    with suppress(AlreadyExists):
        await world.skr.create(SERVICE_ACCOUNTS, thing("v1", "ServiceAccount", "default"), SKR, field_manager="test")
    await world.skr.create(PODS, pod, SKR, field_manager="statefulset-controller")
    await world.reconcile()
    assert await world.state() == ("Processing", "ManagerNotReady")

    async def waits(reason: str, **more: Any) -> None:
        state = {"waiting": {"reason": reason, "message": "manifest unknown"}}
        container = {"name": "manager", "image": "registry.example.com/absent:1", "imageID": "", "ready": False}
        containers = [{**container, "restartCount": 0, "state": state, **more}]
        await world.skr.merge_patch(
            PODS, "sown-0", {"status": {"containerStatuses": containers}}, SKR, subresource="status"
        )
        await world.reconcile()

    await waits("ImagePullBackOff")
    assert await world.state() == ("Error", "ManagerFailed")
    assert "ImagePullBackOff: image registry.example.com/absent:1" in (await world.condition()).message
    await waits("ContainerCreating")
    assert await world.state() == ("Processing", "ManagerNotReady")
    await waits("CrashLoopBackOff", lastState={"terminated": {"exitCode": 2, "reason": "Error"}})
    assert await world.state() == ("Processing", "ManagerNotReady")
    assert "CrashLoopBackOff: container manager ended with exit code 2" in (await world.condition()).message
    await world.skr.delete(PODS, "sown-0", SKR)
    await remove(world)
