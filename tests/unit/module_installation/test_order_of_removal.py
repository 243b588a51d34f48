"""What a controller of the module has to finish is deleted before the controller."""

from kube_runtime import Resource
from lifecycle_manager_api import names
from tests.kinds import DEPLOYMENTS
from tests.manifest_clusters import Modules
from tests.modules import Document

GROUP = "gateway.networking.k8s.io"


def definition() -> Document:
    names = {"kind": "GatewayClass", "plural": "gatewayclasses", "singular": "gatewayclass"}
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"gatewayclasses.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Cluster", "names": names, "versions": [version]},
    }


def gateway_class() -> Document:
    return {"apiVersion": f"{GROUP}/v1", "kind": "GatewayClass", "metadata": {"name": "mine"}, "spec": {}}


def controller() -> Document:
    pod = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "x", "image": "x"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "controller"},
        "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": pod},
    }


async def test_custom_resource_of_a_group_of_kubernetes_goes_before_its_controller(world: Modules) -> None:
    """A finalizer that only the controller removes would keep the module for ever."""
    await world.want([definition(), gateway_class(), controller()])
    await world.reconcile()
    classes = Resource.dynamic(GROUP, "v1", "GatewayClass", "gatewayclasses", namespaced=False)
    held = {"metadata": {"finalizers": ["example.com/of-the-controller"]}}
    await world.skr.merge_patch(classes, "mine", held, field_manager="controller")
    await world.delete()
    await world.reconcile()
    await world.skr.get(DEPLOYMENTS, "controller", names.SKR_NAMESPACE)
    await world.skr.merge_patch(classes, "mine", {"metadata": {"finalizers": None}}, field_manager="controller")
    await world.reconcile_until_gone()
