"""Modules whose new version, or whose repair, a real API server would refuse for ever."""

import base64
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial

import pytest

from kube_runtime import ApiError, Client, NotFound, NotServed, Resource, ServerUnavailable
from lifecycle_manager_api import names
from tests.kinds import CLUSTER_ROLES, CONFIG_MAPS, DEPLOYMENTS, ROLE_BINDINGS, SECRETS, SERVICES, WEBHOOKS
from tests.manifest_clusters import KEY, Modules
from tests.modules import Document, default_module_cr, group_of, module_crs, operator
from tests.waiting import eventually

SKR = names.SKR_NAMESPACE
JOBS: Resource[Document] = Resource.dynamic("batch", "v1", "Job", "jobs", namespaced=True)
READY = ("Ready", "ModuleReady")


def thing(api_version: str, kind: str, name: str, **content: object) -> Document:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": SKR}, **content}


def service(port: int) -> Document:
    return thing("v1", "Service", "ports", spec={"selector": {"app": "x"}, "ports": [{"name": "http", "port": port}]})


def job(image: str) -> Document:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": image}]}
    return thing("batch/v1", "Job", "once", spec={"template": {"spec": pod}})


def binding(role: str) -> Document:
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role}
    return thing("rbac.authorization.k8s.io/v1", "RoleBinding", "meadow", roleRef=reference)


def gate(number: int) -> list[Document]:
    """Return a webhook that nobody serves, and an object that it refuses."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["configmaps"]}
    hook = {
        "name": "v.case.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "timeoutSeconds": 1,
        "clientConfig": {"url": "https://127.0.0.1:1/validate"},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": SKR}},
        "rules": [rule],
    }
    webhook = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "gates"},
        "webhooks": [hook],
    }
    gated = thing("v1", "ConfigMap", "gated", data={"x": str(number)})
    return [gated, webhook] if number == 1 else [gated]


@pytest.fixture(autouse=True)
async def gates_are_open(skr: Client) -> AsyncIterator[None]:
    """Leave no webhook, which would refuse what other tests write to the server."""
    yield
    with suppress(NotFound, NotServed):
        await skr.delete(WEBHOOKS, "gates")


async def refuses(world: Modules) -> bool:
    """Ask the server whether it refuses to change the object: it learns of a webhook after it stored it."""
    try:
        await world.skr.merge_patch(CONFIG_MAPS, "gated", {}, SKR, field_manager="test", dry_run=True)
    except ApiError:
        return True
    return False


async def reaches(world: Modules, state: tuple[str, str]) -> None:
    """Reconcile until the module has a state, whatever the server refuses until then."""

    async def reached() -> bool:
        with suppress(ApiError):
            await world.reconcile()
        return await world.state() == state

    await eventually(reached, within=60, what=f"the module is {state}")


async def installed(world: Modules, *objects: Document) -> None:
    await world.want(objects)
    await reaches(world, READY)


async def remove(world: Modules) -> None:
    await world.delete()
    await world.reconcile_until_gone()


async def test_port_that_a_user_changed_gets_the_number_of_the_module(world: Modules) -> None:
    await installed(world, service(80))
    patch = {"spec": {"ports": [{"name": "http", "port": 90}]}}
    await world.skr.merge_patch(SERVICES, "ports", patch, SKR, field_manager="kubectl-edit")
    await world.restart()

    await installed(world, service(80))

    assert [each["port"] for each in (await world.skr.get(SERVICES, "ports", SKR))["spec"]["ports"]] == [80]
    await remove(world)


async def test_new_version_gets_a_job_and_a_binding_that_can_not_be_changed(world: Modules) -> None:
    await world.want([job("x:1"), binding("reader")])
    await world.reconcile()
    await world.want([job("x:2"), binding("writer")])
    await world.reconcile()

    (container,) = (await world.skr.get(JOBS, "once", SKR))["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "x:2"
    assert (await world.skr.get(ROLE_BINDINGS, "meadow", SKR))["roleRef"]["name"] == "writer"
    await remove(world)


async def test_field_that_can_not_be_changed_is_named_in_one_sentence(world: Modules) -> None:
    def stateful(service_name: str, **annotations: str) -> Document:
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x:1"}]}}
        spec = {"serviceName": service_name, "selector": {"matchLabels": {"a": "b"}}, "template": template}
        found = thing("apps/v1", "StatefulSet", "store", spec={**spec, "replicas": 0})
        return {**found, "metadata": {**found["metadata"], "annotations": annotations}}

    await world.want([stateful("a")])
    await world.reconcile()
    await world.want([stateful("b")])
    await reaches(world, ("Error", "ApplyFailed"))
    assert (await world.condition()).message == (
        "document 0: StatefulSet kyma-system/store: spec can't be changed once the object exists; delete it, or set "
        'its annotation operator.kyma-project.io/recreate: "true" in the manifest'
    )

    await world.want([stateful("b", **{names.RECREATE: "true"})])
    await world.reconcile()
    assert (await world.condition("Resources")).status == "True"
    await remove(world)


async def test_webhook_of_the_former_version_does_not_keep_the_new_one_out(world: Modules) -> None:
    await installed(world, *gate(1))
    await eventually(lambda: refuses(world), what="the server calls the webhook")

    await installed(world, *gate(2))

    assert (await world.skr.get(CONFIG_MAPS, "gated", SKR))["data"] == {"x": "2"}
    assert "gates" not in [each["metadata"]["name"] for each in (await world.skr.list(WEBHOOKS)).items]
    await remove(world)


async def guarded(world: Modules, *operations: str) -> list[Document]:
    """Install a module with a webhook of its kind that nobody serves; return its objects without that."""
    pod = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    spec = {"replicas": 0, "selector": {"matchLabels": {"app": "x"}}, "template": pod}
    objects = [operator("meadow", "1")[0], thing("apps/v1", "Deployment", "manager", spec=spec)]
    await world.want(objects, resource=default_module_cr("meadow"))
    await world.reconcile()
    held = {"metadata": {"finalizers": ["example.com/manager"]}}
    await world.skr.merge_patch(module_crs("meadow"), "default", held, SKR)
    rule = {"apiGroups": [group_of("meadow")], "apiVersions": ["*"], "resources": ["*"], "operations": operations}
    _, webhook = gate(1)
    await world.want([*objects, {**webhook, "webhooks": [{**webhook["webhooks"][0], "rules": [rule]}]}])
    await world.reconcile()

    async def guards() -> bool:
        try:
            await world.skr.merge_patch(module_crs("meadow"), "default", {}, SKR, dry_run=True)
        except ServerUnavailable:
            return True
        return False

    await eventually(guards, what="the server calls the webhook")
    return objects


async def goes(world: Modules) -> bool:
    with suppress(ApiError):
        await world.reconcile()
    return await world.manifest() is None


@pytest.mark.parametrize("operations", [("UPDATE",), ("UPDATE", "DELETE")])
async def test_webhook_of_a_missing_manager_does_not_block_the_removal(
    world: Modules, operations: tuple[str, ...]
) -> None:
    await guarded(world, *operations)
    await world.skr.delete(DEPLOYMENTS, "manager", SKR)
    await world.delete()

    await eventually(partial(goes, world), within=60, what="the module is removed")

    assert "gates" not in [each["metadata"]["name"] for each in (await world.skr.list(WEBHOOKS)).items]


async def test_new_version_comes_while_the_webhook_of_the_module_refuses_its_removal(world: Modules) -> None:
    objects = await guarded(world, "UPDATE", "DELETE")
    await world.delete()
    assert not await goes(world)
    assert "failed calling webhook" in (await world.condition()).message
    await world.want(objects)

    await eventually(partial(becomes_deleted, world), within=60, what="the Module CR is being deleted")

    await world.skr.merge_patch(module_crs("meadow"), "default", {"metadata": {"finalizers": None}}, SKR)
    await eventually(partial(goes, world), within=60, what="the module is removed")


async def becomes_deleted(world: Modules) -> bool:
    await goes(world)
    return "deletionTimestamp" in (await world.skr.get(module_crs("meadow"), "default", SKR))["metadata"]


@pytest.mark.parametrize("is_restarted", [False, True], ids=["running", "restarted"])
async def test_emptied_webhooks_are_restored_by_the_next_check(world: Modules, is_restarted: bool) -> None:
    webhook = gate(1)[1]
    await installed(world, webhook)
    await world.skr.merge_patch(WEBHOOKS, "gates", {"webhooks": []}, field_manager="kubectl-edit")
    if is_restarted:
        await world.restart()
    await world.reconcile()
    world.controller.state_or_new(KEY).next_check = 0.0

    await world.reconcile()

    (hook,) = (await world.skr.get(WEBHOOKS, "gates"))["webhooks"]
    assert hook["name"] == "v.case.example.com"
    await remove(world)


async def test_text_of_a_secret_that_a_new_version_drops_goes(world: Modules) -> None:
    await installed(world, thing("v1", "Secret", "texts", stringData={"a": "one", "b": "two"}))

    await installed(world, thing("v1", "Secret", "texts", stringData={"a": "one"}))

    data = (await world.skr.get(SECRETS, "texts", SKR))["data"]
    assert {key: base64.b64decode(value) for key, value in data.items()} == {"a": b"one"}
    await remove(world)


async def test_rules_that_the_cluster_aggregates_outlive_each_check(world: Modules) -> None:
    selectors = [{"matchLabels": {"case.example.com/aggregate": "true"}}]
    role: Document = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "aggregated"},
        "aggregationRule": {"clusterRoleSelectors": selectors},
        "rules": [],
    }
    await installed(world, role)
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    filled = {"apiVersion": role["apiVersion"], "kind": role["kind"], "metadata": role["metadata"], "rules": rules}
    await world.skr.apply(CLUSTER_ROLES, "aggregated", filled, field_manager="clusterrole-aggregation-controller")
    await world.restart()

    await installed(world, role)

    assert (await world.skr.get(CLUSTER_ROLES, "aggregated"))["rules"] == rules
    await remove(world)
