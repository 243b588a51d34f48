"""A controller of the module goes after what it has to finish, and what it made of the module's own with its owner."""

from typing import Any

import pytest

from kube_runtime import Resource
from lifecycle_manager_api import names
from tests.kinds import CONFIG_MAPS, DEPLOYMENTS, crd_of
from tests.manifest_clusters import Modules
from tests.modules import Document
from tests.takeover_from_go.played import status_of

GROUP, GATEWAYS = "kafka.example.com", "gateway.networking.k8s.io"


def resource(kind: str) -> Resource[Any]:
    return Resource.dynamic(GROUP, "v1", kind, f"{kind.lower()}s", namespaced=True)


def controller() -> Document:
    pod = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "x", "image": "x"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "controller"},
        "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": pod},
    }


def owner_of(live: Document) -> Document:
    kind = {"apiVersion": f"{GROUP}/v1", "kind": "Broker"}
    return {**kind, "name": "mine", "uid": live["metadata"]["uid"], "controller": True, "blockOwnerDeletion": True}


async def runs(world: Modules) -> None:
    """Have the controller run, so that the default Module CR is created."""
    status = {"status": status_of(await world.skr.get(DEPLOYMENTS, "controller", names.SKR_NAMESPACE))}
    await world.skr.merge_patch(DEPLOYMENTS, "controller", status, names.SKR_NAMESPACE, subresource="status")
    await world.reconcile()


async def test_object_that_a_controller_made_of_one_of_the_module_does_not_keep_it(world: Modules) -> None:
    """Whoever deletes it finds it there again, as long as its owner is there."""
    broker = {"apiVersion": f"{GROUP}/v1", "kind": "Broker", "metadata": {"name": "mine"}, "spec": {}}
    await world.want([crd_of(GROUP, "Broker"), crd_of(GROUP, "PodSet"), broker, controller()])
    await world.reconcile()
    live = await world.skr.get(resource("Broker"), "mine", names.SKR_NAMESPACE)
    metadata = {"name": "made", "ownerReferences": [owner_of(live)], "finalizers": ["example.com/of-the-controller"]}
    made = {"apiVersion": f"{GROUP}/v1", "kind": "PodSet", "metadata": metadata}
    await world.skr.create(resource("PodSet"), made, names.SKR_NAMESPACE, field_manager="controller")
    await world.delete()
    await world.reconcile()
    await world.reconcile()
    await world.skr.get(DEPLOYMENTS, "controller", names.SKR_NAMESPACE)
    patch = {"metadata": {"finalizers": None}}
    await world.skr.merge_patch(resource("PodSet"), "made", patch, names.SKR_NAMESPACE, field_manager="controller")
    await world.reconcile_until_gone()


@pytest.mark.parametrize("is_default", [True, False])
async def test_controller_keeps_what_it_made_until_it_has_cleaned_up(world: Modules, is_default: bool) -> None:
    """Such as the credentials by which it removes what is elsewhere: it says by a finalizer when it is done."""
    broker = {"apiVersion": f"{GROUP}/v1", "kind": "Broker", "metadata": {"name": "mine"}, "spec": {}}
    objects = [crd_of(GROUP, "Broker"), controller()]
    await world.want(objects if is_default else [*objects, broker], resource=broker if is_default else None)
    await world.reconcile()
    await runs(world)
    held = {"metadata": {"finalizers": ["example.com/of-the-controller"]}}
    live = await world.skr.merge_patch(resource("Broker"), "mine", held, names.SKR_NAMESPACE)
    made = {"metadata": {"name": "credentials", "ownerReferences": [owner_of(live)]}}
    await world.skr.create(CONFIG_MAPS, made, names.SKR_NAMESPACE, field_manager="controller")
    await world.delete()
    for _ in range(3):
        await world.reconcile()
    kept = await world.skr.get(CONFIG_MAPS, "credentials", names.SKR_NAMESPACE)
    assert "deletionTimestamp" not in kept["metadata"]
    await world.skr.merge_patch(resource("Broker"), "mine", {"metadata": {"finalizers": None}}, names.SKR_NAMESPACE)
    await world.reconcile_until_gone()


def gateway_class() -> Document:
    return {"apiVersion": f"{GATEWAYS}/v1", "kind": "GatewayClass", "metadata": {"name": "mine"}, "spec": {}}


async def test_custom_resource_of_a_group_of_kubernetes_goes_before_its_controller(world: Modules) -> None:
    """A finalizer that only the controller removes would keep the module for ever."""
    crd = crd_of(GATEWAYS, "GatewayClass", plural="gatewayclasses", scope="Cluster")
    await world.want([crd, gateway_class(), controller()])
    await world.reconcile()
    classes = Resource.dynamic(GATEWAYS, "v1", "GatewayClass", "gatewayclasses", namespaced=False)
    held = {"metadata": {"finalizers": ["example.com/of-the-controller"]}}
    await world.skr.merge_patch(classes, "mine", held, field_manager="controller")
    await world.delete()
    await world.reconcile()
    await world.skr.get(DEPLOYMENTS, "controller", names.SKR_NAMESPACE)
    await world.skr.merge_patch(classes, "mine", {"metadata": {"finalizers": None}}, field_manager="controller")
    await world.reconcile_until_gone()
