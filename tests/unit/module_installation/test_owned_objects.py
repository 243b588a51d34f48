"""What a controller makes of a custom resource of the module is not the users': it goes with its owner."""

from typing import Any

from kube_runtime import Resource
from lifecycle_manager_api import names
from tests.kinds import DEPLOYMENTS
from tests.manifest_clusters import Modules
from tests.modules import Document

GROUP = "kafka.example.com"


def definition(kind: str) -> Document:
    plural = f"{kind.lower()}s"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [version],
        },
    }


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


async def test_object_that_a_controller_made_of_one_of_the_module_does_not_keep_it(world: Modules) -> None:
    """Whoever deletes it finds it there again, as long as its owner is there."""
    broker = {"apiVersion": f"{GROUP}/v1", "kind": "Broker", "metadata": {"name": "mine"}, "spec": {}}
    await world.want([definition("Broker"), definition("PodSet"), broker, controller()])
    await world.reconcile()
    live = await world.skr.get(resource("Broker"), "mine", names.SKR_NAMESPACE)
    kind = {"apiVersion": f"{GROUP}/v1", "kind": "Broker"}
    owner = {**kind, "name": "mine", "uid": live["metadata"]["uid"], "controller": True, "blockOwnerDeletion": True}
    metadata = {"name": "made", "ownerReferences": [owner], "finalizers": ["example.com/of-the-controller"]}
    made = {"apiVersion": f"{GROUP}/v1", "kind": "PodSet", "metadata": metadata}
    await world.skr.create(resource("PodSet"), made, names.SKR_NAMESPACE, field_manager="controller")
    await world.delete()
    await world.reconcile()
    await world.reconcile()
    await world.skr.get(DEPLOYMENTS, "controller", names.SKR_NAMESPACE)
    patch = {"metadata": {"finalizers": None}}
    await world.skr.merge_patch(resource("PodSet"), "made", patch, names.SKR_NAMESPACE, field_manager="controller")
    await world.reconcile_until_gone()
