"""The programs have the rights that they need, and no others: audit logs of the API servers against the roles."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib.resources import files
from typing import Any

import msgspec

from kube_runtime import Client, Invalid, NotFound, Resource, dump_yaml
from kyma_demo.names import USER
from kyma_demo.object_watcher import CONFIG_MAPS
from kyma_module_manager.rights import roles_of
from kyma_oci import Blob
from kyma_oci.packing import manifest_of
from lifecycle_manager.contract.resources import (
    KYMAS,
    MANIFESTS,
    MODULE_CONFIGS,
    MODULE_POLICIES,
    MODULE_RELEASE_METAS,
    MODULE_TEMPLATES,
    SECRETS,
    SYNC_RESOURCES,
    WATCHERS,
)
from lifecycle_manager.process.crd_installation import apply_objects
from lifecycle_manager.takeover import former
from lifecycle_manager.watcher_certificates import ROTATE, CAStore
from lifecycle_manager_api import names
from lifecycle_manager_api.documents import plain
from tests.integration.charts.clusters import HelmClusters
from tests.integration.charts.rights import Right, granted_by, requests_in, unused
from tests.integration.lifecycle_manager.catalog_entries import in_catalog, release, template, with_layer
from tests.integration.lifecycle_manager.test_watcher_resources import watcher
from tests.integration.takeover import seeding
from tests.kinds import EVENTS
from tests.modules import as_text
from tests.registries import BlobServer, blob_server
from tests.waiting import eventually

KCP, SKR = names.KCP_NAMESPACE, names.SKR_NAMESPACE
MODULE, OWN = "cloud-resources", "module-cloud-resources"
CLOUD_RESOURCES = {"name": MODULE, "managed": True}
KCP_ROLES = files("lifecycle_manager.rbac").joinpath("kcp.yaml").read_text()
SKR_ROLES = files("lifecycle_manager.rbac").joinpath("skr.yaml").read_text()
MODULE_ROLE = files("lifecycle_manager.rbac").joinpath("kcp-modules.yaml").read_text()
MODULE_MANAGER_ROLES = "---\n".join(map(dump_yaml, roles_of("cloud-resources")))
WORKLOADS = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: telemetry-workloads}
rules: [{apiGroups: [apps], resources: [deployments], verbs: [get, create, patch, delete]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: telemetry-workloads}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: telemetry-workloads}
subjects: [{kind: ServiceAccount, name: lifecycle-manager, namespace: kube-system}]
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: default, namespace: kyma-system}
"""
"""What a module with a Deployment needs: the rights that it brings along, and an account for its Pods."""
ASKED_BY_A_POLICY = Right("operator.kyma-project.io", "modules", "manage")
"""The right that only an admission policy asks about: there is no such request."""
PROBES = f"/namespaces/{names.KCP_LEASE_NAMESPACE}/syncresources"
"""Where Lifecycle Manager tries whether the admission policy refuses a SyncResource."""


async def test_no_request_of_the_programs_is_forbidden(world: HelmClusters) -> None:
    """Requests that were refused by the roles of an earlier release, and succeed with those of this one, are fine."""
    asked = [
        request
        for cluster in (world.clusters.kcp, *world.clusters.skrs)
        for request in requests_in(cluster.directory / "audit.log")
    ]
    answered = {(request.user, request.rights, request.path) for request in asked if request.code < 400}
    refused = {
        (request.user, request.rights, request.path)
        for request in asked
        if request.code == 403 and request.bound and not request.path.endswith(PROBES)
    }
    assert refused - answered == set()
    users = {request.user.rpartition(":")[2] for request in asked}
    assert {"lifecycle-manager", "cloud-resources-module-manager"} <= users


async def test_every_right_is_used(world: HelmClusters) -> None:
    """Rights that are needed rarely are used here, the others by the setup of the world."""
    await world.walkthrough.change_volume("390Gi")
    await _repeat_an_event(world)
    await _create_and_delete_a_watcher(world)
    async with blob_server() as layers:
        await _install_and_remove_modules(world, layers)
    await _give_the_module_its_own_namespace_and_the_common_one_again(world)
    await _rotate_the_ca(world)
    await _restart_the_replicas(world)
    await _pin_a_descriptor(world)
    await _create_a_namespace(world)
    await _leave_objects_of_a_former_watcher(world)
    await _delete_the_kyma(world)
    await world.manage_the_user_cluster()
    await world.walkthrough.change_volume("400Gi")

    kcp = list(requests_in(world.clusters.kcp.directory / "audit.log"))
    skr = list(requests_in(world.clusters.skrs[0].directory / "audit.log"))
    never = (
        unused(granted_by(KCP_ROLES), "system:serviceaccount:kcp-system:lifecycle-manager", kcp)
        | unused(granted_by(MODULE_ROLE), "system:serviceaccount:kcp-system:lifecycle-manager", kcp)
        | unused(
            granted_by(MODULE_MANAGER_ROLES), "system:serviceaccount:kcp-system:cloud-resources-module-manager", kcp
        )
        | unused(granted_by(SKR_ROLES), "system:serviceaccount:kube-system:lifecycle-manager", skr)
    )
    never = {each for each in never if not ASKED_BY_A_POLICY.covers(replace(each, names=()))}
    assert {str(each) for each in never} == set(), "remove these from the roles, or use them in this test"


async def _give_the_module_its_own_namespace_and_the_common_one_again(world: HelmClusters) -> None:
    """Replace its ModulePolicy and upgrade its Module Manager, while the module has no ModuleConfigs."""
    for namespace, volume in ((OWN, "391Gi"), (KCP, "392Gi")):
        for chosen in ([MODULE], []):
            await world.walkthrough.set_modules([CLOUD_RESOURCES] if chosen else [])
            await eventually(partial(_lists, world, chosen))
        for kind in (MODULE_CONFIGS, SYNC_RESOURCES):
            await eventually(partial(_none_of_the_module, world, kind), within=180)
        policy = await world.kcp.get(MODULE_POLICIES, MODULE, KCP)
        spec = plain(policy.spec) | {"controlPlaneNamespace": namespace}
        await eventually(partial(_replaced, world, {"metadata": {"name": MODULE}, "spec": spec}))
        options = (f"--set=namespace={OWN}",) if namespace == OWN else ()
        await world.install_module_manager(*options, command="upgrade")
        await world.walkthrough.set_modules([CLOUD_RESOURCES])
        await world.walkthrough.change_volume(volume)
        configs = (await world.kcp.list(MODULE_CONFIGS)).items
        assert {each.metadata.namespace for each in configs if each.spec.module == MODULE} == {namespace}


async def _replaced(world: HelmClusters, policy: dict[str, Any]) -> bool:
    """Replace the ModulePolicy; False where Lifecycle Manager has not yet seen that nothing is left."""
    try:
        with suppress(NotFound):
            await world.kcp.delete(MODULE_POLICIES, MODULE, KCP)
        await world.kcp.create(MODULE_POLICIES, policy, KCP, field_manager="test")
    except Invalid:
        return False
    return True


async def _none_of_the_module(world: HelmClusters, resource: Resource[Any]) -> bool:
    items = (await world.kcp.list(resource)).items
    return not [each for each in items if each.spec.module == MODULE and each.metadata.name != "far"]


async def _restart_the_replicas(world: HelmClusters) -> None:
    """Replace every Pod of KCP: each replica deletes its Lease when it stops."""
    await world.install_lifecycle_manager("--set=resources.limits.memory=1100Mi", command="upgrade")
    await world.install_module_manager("--set=resources.limits.memory=300Mi", command="upgrade")


async def _pin_a_descriptor(world: HelmClusters) -> None:
    """Offer a module whose descriptor is found in a registry by its version."""
    whole, version = template("pinned", "1.0.0"), "1.0.0"
    component = whole["spec"]["descriptor"]["component"]["name"]
    async with blob_server() as layers:
        descriptor = Blob(
            msgspec.json.encode(whole["spec"]["descriptor"]),
            "application/vnd.ocm.software.component-descriptor.v2+json",
        )
        layers.hold(descriptor.content)
        layers.blobs[version] = manifest_of(descriptor, [descriptor]).content
        await world.install_lifecycle_manager(
            f"--set=options.oci-registry-host=http://{layers.host}", command="upgrade"
        )
        whole["spec"]["descriptor"] = {}
        named = release("pinned", regular=version, spec={"ocmComponentName": component})
        async with in_catalog(world.kcp, whole, named):

            async def pinned() -> bool:
                found = await world.kcp.get(MODULE_TEMPLATES, whole["metadata"]["name"], KCP)
                return found.status.pinned_descriptor is not None

            await eventually(pinned)


async def _repeat_an_event(world: HelmClusters) -> None:
    """Cause the same Event twice: the second one patches the first, if both are from the same replica."""

    async def repeated() -> bool:
        for chosen in (["cloud-resources", "tpyo"], ["cloud-resources"]):
            await world.walkthrough.set_modules([{"name": name, "managed": True} for name in chosen])
            await eventually(partial(_lists, world, chosen))
        events = (await world.kcp.list(EVENTS, KCP)).items
        return any("tpyo" in event["note"] and event.get("series") for event in events)

    await eventually(repeated)


async def _create_and_delete_a_watcher(world: HelmClusters) -> None:
    """Create a Watcher CR with the finalizer of a former version, wait for its status, and delete it."""
    await world.kcp.apply(WATCHERS, "colours", watcher("red"), KCP, field_manager="test")
    finalizers = {"metadata": {"finalizers": [*former.WATCHER_FINALIZERS]}}
    await world.kcp.merge_patch(WATCHERS, "colours", finalizers, KCP, field_manager="test")

    async def ready() -> bool:
        return (await world.kcp.get(WATCHERS, "colours", KCP)).status.state == "Ready"

    await eventually(ready)
    await world.kcp.delete(WATCHERS, "colours", KCP)


async def _leave_objects_of_a_former_watcher(world: HelmClusters) -> None:
    """Create the objects of a former version's Watcher that this one has no more; they are deleted with the Kyma."""
    left = {entry.name for entry in former.WATCHER_OBJECTS}
    for written in seeding.writes_of("watcher", seeding.Seed()):
        if written["object"]["metadata"]["name"] in left:
            await seeding.carry_out(world.skr, written)


async def _create_a_namespace(world: HelmClusters) -> None:
    """Apply an object in a namespace that does not exist, by a SyncResource that stays."""
    document = {
        "apiVersion": SYNC_RESOURCES.api_version,
        "kind": "SyncResource",
        "metadata": {"name": "far", "namespace": KCP, "annotations": {names.CREATE_NAMESPACES: "true"}},
        "spec": {
            "kyma": "demo",
            "module": "cloud-resources",
            "resource": "{apiVersion: v1, kind: ConfigMap, metadata: {name: far-nfs-1, namespace: cloud-resources}}",
        },
    }
    await world.kcp.apply(SYNC_RESOURCES, "far", document, KCP, field_manager="test")
    await eventually(_exists(world.skr, CONFIG_MAPS, "far-nfs-1", "cloud-resources"))


async def _install_and_remove_modules(world: HelmClusters, layers: BlobServer) -> None:
    """Install a chosen module and a mandatory one, edit their catalog objects, and remove both."""
    await apply_objects(world.skr, WORKLOADS)
    chosen, mandatory = _module(layers, "telemetry", _deployment()), _module(layers, "warden", mandatory=True)
    async with in_catalog(
        world.kcp,
        *(chosen, release("telemetry", regular="1.0.0")),
        *(mandatory, release("warden", mandatory="1.0.0")),
    ):
        await world.walkthrough.set_modules([CLOUD_RESOURCES, {"name": "telemetry", "managed": True}])
        for name in ("telemetry", "warden"):
            await eventually(_exists(world.skr, CONFIG_MAPS, name, SKR))
        await _pods_are_looked_for(world)
        for resource, name in ((MODULE_TEMPLATES, "telemetry-1.0.0"), (MODULE_RELEASE_METAS, "telemetry")):
            await eventually(_exists(world.skr, resource, name, SKR))
            await _edit_until_reverted(world.skr, resource, name)
        # Without the module, nothing of it is left that would be created again, such as its ModuleConfigs.
        await world.walkthrough.set_modules([])
        for dependent in (MODULE_CONFIGS, SYNC_RESOURCES):
            await eventually(partial(_none, world.kcp, dependent))
    await eventually(partial(_none, world.kcp, MANIFESTS))
    await world.walkthrough.set_modules([CLOUD_RESOURCES])


async def _edit_until_reverted(skr: Client, resource: Resource[Any], name: str) -> None:
    """Add a field as a user that no other field manager has, and wait until it is removed."""
    before = await skr.get(resource, name, SKR)
    await skr.merge_patch(resource, name, {"spec": EXTRA[resource.kind]}, SKR, field_manager=USER)

    async def reverted() -> bool:
        return bool((await skr.get(resource, name, SKR)).spec == before.spec)

    await eventually(reverted)


async def _rotate_the_ca(world: HelmClusters) -> None:
    mark = {"metadata": {"annotations": {ROTATE: "now"}}}
    await world.kcp.merge_patch(SECRETS, CAStore.name, mark, KCP, field_manager=USER)

    async def announced() -> bool:
        return ROTATE not in (await world.kcp.get(SECRETS, CAStore.name, KCP)).metadata.annotations

    await eventually(announced)


async def _delete_the_kyma(world: HelmClusters) -> None:
    """Delete the Kyma, whose CR in the SKR has the finalizer of another version of Lifecycle Manager."""
    finalizer = {"metadata": {"finalizers": [names.KYMA_FINALIZER]}}
    await world.skr.merge_patch(KYMAS, "default", finalizer, SKR, field_manager=USER)
    await world.kcp.delete(KYMAS, "demo", KCP)
    await eventually(_gone(world.kcp, KYMAS, "demo", KCP))


EXTRA: dict[str, dict[str, Any]] = {
    "ModuleTemplate": {"associatedResources": [{"group": "", "version": "v1", "kind": "Secret"}]},
    "ModuleReleaseMeta": {"kymaSelector": {"matchLabels": {"some": "kyma"}}},
}


def _module(layers: BlobServer, name: str, *more: dict[str, Any], mandatory: bool = False) -> dict[str, Any]:
    """Return the template of a module with a ConfigMap, which the roles of the sample allow, and more objects."""
    document = template(name, "1.0.0", mandatory=mandatory, data=None)
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": SKR}}
    return with_layer(document, layers.host, layers.hold(as_text([config_map, *more]).encode()))


def _deployment() -> dict[str, Any]:
    """Return a Deployment whose Pod is on a node that does not run it."""
    labels = {"app": "telemetry"}
    security = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": True}
    security |= {"seccompProfile": {"type": "RuntimeDefault"}}
    container = {"name": "manager", "image": "registry.example.com/absent:1", "securityContext": security}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container], "nodeName": "absent"}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "telemetry", "namespace": SKR},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }


async def _pods_are_looked_for(world: HelmClusters) -> None:
    """Wait until Lifecycle Manager has looked why the Pod of the Deployment does not start."""

    async def looked_for() -> bool:
        requests = requests_in(world.clusters.skrs[0].directory / "audit.log")
        return not unused([Right("", "pods", "list")], "system:serviceaccount:kube-system:lifecycle-manager", requests)

    await eventually(looked_for)


async def _lists(world: HelmClusters, modules: list[str]) -> bool:
    kyma = await world.kcp.get(KYMAS, "demo", KCP)
    return sorted(module.name for module in kyma.status.modules) == sorted(modules)


def _exists(client: Client, resource: Resource[Any], name: str, namespace: str) -> Callable[[], Awaitable[bool]]:
    async def exists() -> bool:
        try:
            await client.get(resource, name, namespace)
        except NotFound:
            return False
        return True

    return exists


def _gone(client: Client, resource: Resource[Any], name: str, namespace: str) -> Callable[[], Awaitable[bool]]:
    exists = _exists(client, resource, name, namespace)

    async def gone() -> bool:
        return not await exists()

    return gone


async def _none(client: Client, resource: Resource[Any]) -> bool:
    return not (await client.list(resource, KCP)).items
