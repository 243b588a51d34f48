"""The programs have the rights that they need, and no others: audit logs of the API servers against the roles.

What is granted and not used, or used in one namespace of all for which it is granted, has a reason in docs/trust.md.
"""

import base64
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import httpx
import msgspec

from kube_runtime import Client, Invalid, NotFound, NotServed, Resource, dump_yaml
from kyma_demo.names import USER
from kyma_demo.object_watcher import CONFIG_MAPS
from kyma_local.ports import free_port
from kyma_module_manager.rights import roles_of
from kyma_oci import Blob
from kyma_oci.packing import manifest_of
from kyma_takeover import marks
from kyma_takeover.lease import LEASE, LEASES
from lifecycle_manager.admission import ADMISSION_WEBHOOKS
from lifecycle_manager.contract.resources import (
    KYMAS,
    MANIFESTS,
    MODULE_CONFIGS,
    MODULE_POLICIES,
    MODULE_RELEASE_METAS,
    MODULE_ROLLOUTS,
    MODULE_TEMPLATES,
    ROLLOUT_STRATEGIES,
    SECRETS,
    SYNC_RESOURCES,
    WATCHERS,
)
from lifecycle_manager.process.crd_installation import apply_objects
from lifecycle_manager.watcher_certificates.ca_store import ROTATE, CAStore
from lifecycle_manager_api import names
from lifecycle_manager_api.documents import plain
from tests.integration.charts.clusters import HelmClusters
from tests.integration.charts.rights import Right, granted_by, requests_in, unused, used_by, wider_than_used
from tests.integration.lifecycle_manager.catalog_entries import in_catalog, release, template, with_layer
from tests.integration.lifecycle_manager.test_watcher_resources import watcher
from tests.kinds import CLUSTER_ROLE_BINDINGS, EVENTS, INFRASTRUCTURES, NAMESPACES, ROLE_BINDINGS, SERVICE_ACCOUNTS
from tests.modules import as_text
from tests.registries import BlobServer, blob_server
from tests.takeover_from_go.recordings import recorded, restore, the
from tests.takeover_from_go.restored import Certificates, filled
from tests.waiting import eventually, is_gone

KCP, SKR, ISTIO = names.KCP_NAMESPACE, names.SKR_NAMESPACE, "istio-system"
MODULE, OWN = "cloud-resources", "module-cloud-resources"
CLOUD_RESOURCES = {"name": MODULE, "managed": True}
KCP_ROLES, SKR_ROLES, MODULE_ROLE, WEBHOOK_ROLES, PAGE_ROLES = (
    files("lifecycle_manager.rbac").joinpath(f"{name}.yaml").read_text()
    for name in ("kcp", "skr", "kcp-modules", "kcp-webhooks", "kcp-page")
)
TAKEOVER_ROLES = files("kyma_takeover").joinpath("rbac.yaml").read_text()
MODULE_MANAGER_ROLES = "---\n".join(map(dump_yaml, roles_of("cloud-resources")))
LM_IN_KCP, LM_IN_SKR, MANAGER, WATCHER = (
    f"system:serviceaccount:{name}"
    for name in (
        "kcp-system:lifecycle-manager",
        "kube-system:lifecycle-manager",
        "kcp-system:cloud-resources-module-manager",
        "kyma-system:skr-webhook",
    )
)
IDENTITIES = {
    "Lifecycle Manager in KCP": (LM_IN_KCP, granted_by(KCP_ROLES)),
    "Lifecycle Manager in the namespace of a module": (LM_IN_KCP, granted_by(MODULE_ROLE, bound_in=OWN)),
    "Lifecycle Manager with webhooks": (LM_IN_KCP, granted_by(WEBHOOK_ROLES)),
    "Lifecycle Manager with the page": (LM_IN_KCP, granted_by(PAGE_ROLES)),
    "Lifecycle Manager in a takeover": (LM_IN_KCP, granted_by(TAKEOVER_ROLES)),
    "Lifecycle Manager in an SKR": (LM_IN_SKR, granted_by(SKR_ROLES)),
    "a Module Manager": (MANAGER, granted_by(MODULE_MANAGER_ROLES)),
    "the Watcher": (WATCHER, frozenset[Right]()),
}
TRUST, REASONS = Path("docs/trust.md"), "### Rights that are wider than their use\n"
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
VIEWER = """
apiVersion: v1
kind: ServiceAccount
metadata: {name: viewer, namespace: kcp-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: viewer, namespace: kcp-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: klm-viewer}
subjects: [{kind: ServiceAccount, name: viewer, namespace: kcp-system}]
"""
"""A user of the fleet page."""
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
        await _roll_a_version_out(world, layers)
    await _give_the_module_its_own_namespace_and_the_common_one_again(world)
    await _rotate_the_ca(world)
    await _set_options(world)
    await _create_a_namespace(world)
    await _delete_the_webhooks(world)
    await _leave_objects_of_a_former_watcher(world)
    await _delete_the_kyma(world)
    await world.manage_the_user_cluster()
    await world.walkthrough.change_volume("400Gi")

    requests = [
        request
        for cluster in (world.clusters.kcp, *world.clusters.skrs)
        for request in requests_in(cluster.directory / "audit.log")
    ]
    too_wide = {
        (identity, str(right))
        for identity, (user, granted) in IDENTITIES.items()
        for used in (used_by(user, requests),)
        for right in (*unused(granted, used), *wider_than_used(granted, used))
    }
    reasons = {(row[0], text) for row in _reasons() for text in re.findall(r"`([^`]+)`", row[1])}
    without = {each for each in too_wide if not any(_is_for(reason, each) for reason in reasons)}
    assert not without, "remove these from the roles, use them in this test, or give a reason in docs/trust.md"
    needless = {reason for reason in reasons if not any(_is_for(reason, each) for each in too_wide)}
    assert not needless, "these are used or not granted: remove their reasons in docs/trust.md"


async def test_watcher_has_no_rights(world: HelmClusters) -> None:
    """It reads and writes nothing: all that it knows is in its Secret and in what the API server sends to it."""
    subjects = [
        subject
        for resource in (CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS)
        for binding in (await world.skr.list(resource)).items
        for subject in binding.get("subjects", ())
    ]
    assert subjects
    assert not [each for each in subjects if each["name"] == WATCHER.rpartition(":")[2]]
    assert not used_by(WATCHER, requests_in(world.clusters.skrs[0].directory / "audit.log"))


def _reasons() -> list[list[str]]:
    """Return the rows of the table in docs/trust.md: identity, rights, reason."""
    table = TRUST.read_text().partition(REASONS)[2].partition("\n#")[0]
    lines = [line for line in table.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def _is_for(reason: tuple[str, str], found: tuple[str, str]) -> bool:
    return reason[0] == found[0] and fnmatchcase(found[1], reason[1])


async def _delete_the_webhooks(world: HelmClusters) -> None:
    """Delete the webhook configuration of Lifecycle Manager, which creates it again."""
    await world.kcp.delete(ADMISSION_WEBHOOKS, names.LIFECYCLE_MANAGER)

    async def is_back() -> bool:
        return not await is_gone(world.kcp.get(ADMISSION_WEBHOOKS, names.LIFECYCLE_MANAGER))

    await eventually(is_back, within=120)


async def _refuse_a_sync_resource(world: HelmClusters) -> None:
    """Have an Event in the namespace of the module say that there is no such Kyma."""
    document = {"metadata": {"name": "astray", "namespace": OWN}}
    document |= {"spec": {"kyma": "nobody", "module": MODULE, "resource": "{}"}}
    await world.kcp.apply(SYNC_RESOURCES, "astray", document, OWN, field_manager=USER)

    async def is_said() -> bool:
        return any("nobody" in event["note"] for event in (await world.kcp.list(EVENTS, OWN)).items)

    await eventually(is_said)
    await world.kcp.delete(SYNC_RESOURCES, "astray", OWN)


async def _without_module_crs(world: HelmClusters) -> None:
    """Delete the users' Module CRs, which block the removal of their module."""
    for each in (await world.skr.list(INFRASTRUCTURES, SKR)).items:
        await world.skr.delete(INFRASTRUCTURES, each["metadata"]["name"], SKR)


async def _give_the_module_its_own_namespace_and_the_common_one_again(world: HelmClusters) -> None:
    """Replace its ModulePolicy and upgrade its Module Manager, while the module has no ModuleConfigs."""
    for namespace, volume in ((OWN, "391Gi"), (KCP, "392Gi")):
        for chosen in ([MODULE], []):
            await world.walkthrough.set_modules([CLOUD_RESOURCES] if chosen else [])
            if not chosen:
                await _without_module_crs(world)
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
        if namespace == OWN:
            await _refuse_a_sync_resource(world)


async def _replaced(world: HelmClusters, policy: dict[str, Any]) -> bool:
    """Replace the ModulePolicy; False where Lifecycle Manager has not yet seen that nothing is left."""
    try:
        with suppress(NotFound, NotServed):
            await world.kcp.delete(MODULE_POLICIES, MODULE, KCP)
        await world.kcp.create(MODULE_POLICIES, policy, KCP, field_manager="test")
    except Invalid:
        return False
    return True


async def _none_of_the_module(world: HelmClusters, resource: Resource[Any]) -> bool:
    items = (await world.kcp.list(resource)).items
    return not [each for each in items if each.spec.module == MODULE and each.metadata.name != "far"]


async def _set_options(world: HelmClusters) -> None:
    """Replace the replicas: each deletes its Lease when it stops, and the next one takes that of a former version.

    Find a descriptor in a registry by its version, show the fleet page to a user, and take a CA over.
    """
    unheld = {"metadata": {"name": LEASE}, "spec": {"leaseDurationSeconds": 180}}
    await world.kcp.create(LEASES, unheld, KCP, field_manager="former")
    page = f"127.0.0.1:{free_port()}"
    whole, version = template("pinned", "1.0.0"), "1.0.0"
    component = whole["spec"]["descriptor"]["component"]["name"]
    issued = await _leave_a_former_ca(world)
    async with blob_server() as layers:
        descriptor = Blob(
            msgspec.json.encode(whole["spec"]["descriptor"]),
            "application/vnd.ocm.software.component-descriptor.v2+json",
        )
        layers.hold(descriptor.content)
        layers.blobs[version] = manifest_of(descriptor, [descriptor]).content
        await world.install_lifecycle_manager(
            f"--set=options.oci-registry-host=http://{layers.host}",
            f"--set=options.ui-bind-address={page}",
            f"--set=options.self-signed-cert-issuer-namespace={ISTIO}",
            "--set=replicas=1",
            command="upgrade",
        )
        await _look_at(world, page)
        await _adopt(world, issued)
        whole["spec"]["descriptor"] = {}
        named = release("pinned", regular=version, spec={"ocmComponentName": component})
        async with in_catalog(world.kcp, whole, named):

            async def pinned() -> bool:
                found = await world.kcp.get(MODULE_TEMPLATES, whole["metadata"]["name"], KCP)
                return found.status.pinned_descriptor is not None

            await eventually(pinned)


async def _leave_a_former_ca(world: HelmClusters) -> Certificates:
    """Create the Secrets of the CA and the gateway of a former version."""
    issued = Certificates.issue()
    await world.kcp.apply(NAMESPACES, ISTIO, {"metadata": {"name": ISTIO}}, field_manager=USER)
    secrets = [the("kcp", "Secret", name) for name in ("klm-watcher", "klm-istio-gateway")]
    await restore(world.kcp, [filled(each, issued.secrets()) for each in secrets])
    return issued


async def _adopt(world: HelmClusters, issued: Certificates) -> None:
    """Delete the CA, and wait until the former one is in its place."""
    await world.kcp.delete(SECRETS, CAStore.name, KCP)
    former = base64.b64encode(issued.ca.certificate_pem).decode()

    async def adopted() -> bool:
        try:
            return (await world.kcp.get(SECRETS, CAStore.name, KCP)).data["tls.crt"] == former
        except (NotFound, NotServed):
            return False

    await eventually(adopted)


async def _look_at(world: HelmClusters, page: str) -> None:
    await apply_objects(world.kcp, VIEWER)
    asked = {"spec": {"expirationSeconds": 600}}
    token = (await world.kcp.create_subresource(SERVICE_ACCOUNTS, "viewer", KCP, "token", asked))["status"]["token"]
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=f"http://{page}", headers=headers, trust_env=False, timeout=60) as browser:
        for path in ("/", "/kymas/demo", "/kymas/demo/change", "/modules"):
            assert (await browser.get(path)).status_code == 200, path


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
    finalizers = {"metadata": {"finalizers": [*marks.WATCHER_FINALIZERS]}}
    await world.kcp.merge_patch(WATCHERS, "colours", finalizers, KCP, field_manager="test")

    async def ready() -> bool:
        return (await world.kcp.get(WATCHERS, "colours", KCP)).status.state == "Ready"

    await eventually(ready)
    await world.kcp.delete(WATCHERS, "colours", KCP)


async def _leave_objects_of_a_former_watcher(world: HelmClusters) -> None:
    """Create the objects of a former version's Watcher that this one has no more; they are deleted with the Kyma."""
    left = {entry.name for entry in marks.WATCHER_OBJECTS}
    await restore(world.skr, [each for each in recorded("skr-1") if each["metadata"]["name"] in left])


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
        await _without_module_crs(world)
        for dependent in (MODULE_CONFIGS, SYNC_RESOURCES):
            await eventually(partial(_none, world.kcp, dependent))
    await eventually(partial(_none, world.kcp, MANIFESTS))
    await world.walkthrough.set_modules([CLOUD_RESOURCES])


async def _roll_a_version_out(world: HelmClusters, layers: BlobServer) -> None:
    """Give a channel with a strategy another version, after more rollouts than are kept."""
    versions = [_module(layers, "billing", version=version) for version in ("1.0.0", "2.0.0")]
    wave = {"name": "all", "kymaSelector": {}, "soak": "0s"}
    careful = {"metadata": {"name": "careful"}, "spec": {"waves": [wave], "remaining": {"soak": "0s"}}}
    await world.kcp.create(ROLLOUT_STRATEGIES, careful, KCP, field_manager=USER)
    for revision in range(1, 8):
        spec = {"moduleName": "billing", "channel": "regular", "version": "1.0.0", "revision": revision}
        document = {"metadata": {"name": f"billing-{revision}"}, "spec": {**spec, "strategy": careful["spec"]}}
        await world.kcp.create(MODULE_ROLLOUTS, document, KCP, field_manager=USER)
    async with in_catalog(world.kcp, *versions, release("billing", regular="1.0.0")):
        mark = {"metadata": {"annotations": {names.ROLLOUT_STRATEGY: "careful"}}}
        await world.kcp.merge_patch(MODULE_RELEASE_METAS, "billing", mark, KCP, field_manager=USER)
        await world.walkthrough.set_modules([CLOUD_RESOURCES, {"name": "billing", "managed": True}])
        await eventually(_exists(world.skr, CONFIG_MAPS, "billing", SKR))
        channels = {"spec": {"channels": [{"channel": "regular", "version": "2.0.0"}]}}
        await world.kcp.merge_patch(MODULE_RELEASE_METAS, "billing", channels, KCP, field_manager=USER)

        async def rolled_out() -> bool:
            rollouts = (await world.kcp.list(MODULE_ROLLOUTS, KCP)).items
            phases = {each.spec.version: each.status.phase for each in rollouts if each.spec.revision == 8}
            selector = f"{names.MODULE_NAME}=billing"
            manifests = (await world.kcp.list(MANIFESTS, KCP, label_selector=selector)).items
            is_there = [each.spec.version for each in manifests] == ["2.0.0"]
            return is_there and phases == {"2.0.0": "Completed"} and len(rollouts) == 6

        await eventually(rolled_out)
        await world.walkthrough.set_modules([CLOUD_RESOURCES])
        await eventually(lambda: is_gone(world.skr.get(CONFIG_MAPS, "billing", SKR)))
    for each in (await world.kcp.list(MODULE_ROLLOUTS, KCP)).items:
        with suppress(NotFound, NotServed):  # deleted with its ModuleReleaseMeta
            await world.kcp.delete(MODULE_ROLLOUTS, each.metadata.name, KCP)
    await world.kcp.delete(ROLLOUT_STRATEGIES, "careful", KCP)


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
    await eventually(lambda: is_gone(world.kcp.get(KYMAS, "demo", KCP)))


EXTRA: dict[str, dict[str, Any]] = {
    "ModuleTemplate": {"associatedResources": [{"group": "", "version": "v1", "kind": "Secret"}]},
    "ModuleReleaseMeta": {"kymaSelector": {"matchLabels": {"some": "kyma"}}},
}


def _module(
    layers: BlobServer, name: str, *more: dict[str, Any], version: str = "1.0.0", mandatory: bool = False
) -> dict[str, Any]:
    """Return the template of a module with a ConfigMap, which the roles of the sample allow, and more objects."""
    document = template(name, version, mandatory=mandatory, data=None)
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
        return not unused([Right("", "pods", "list")], used_by(LM_IN_SKR, requests))

    await eventually(looked_for)


async def _lists(world: HelmClusters, modules: list[str]) -> bool:
    kyma = await world.kcp.get(KYMAS, "demo", KCP)
    return sorted(module.name for module in kyma.status.modules) == sorted(modules)


def _exists(client: Client, resource: Resource[Any], name: str, namespace: str) -> Callable[[], Awaitable[bool]]:
    async def exists() -> bool:
        return not await is_gone(client.get(resource, name, namespace))

    return exists


async def _none(client: Client, resource: Resource[Any]) -> bool:
    return not (await client.list(resource, KCP)).items
