"""A Lifecycle Manager with one real cluster, to which a registry, a catalog and a Kyma bring a manifest."""

import asyncio
import base64
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from kube_runtime import (
    Client,
    ClientOptions,
    InventoryEntry,
    KindUnknown,
    Manager,
    NotFound,
    NotServed,
    Resource,
    dump_yaml,
)
from kube_runtime.metrics import RESULTS
from kube_simulation import serve_simulation
from lifecycle_manager.app import lifecycle_manager
from lifecycle_manager.contract.conditions import MODULE_CRS_IN_USE
from lifecycle_manager.contract.resources import KYMAS, MANIFESTS, MODULE_POLICIES, SECRETS, SYNC_RESOURCES
from lifecycle_manager.object_set.inventory import inventory_of
from lifecycle_manager.settings import Settings
from lifecycle_manager_api import Manifest, SyncResource, find, names
from lifecycle_manager_api.documents import plain
from tests.clusters import simulated_control_plane
from tests.integration.lifecycle_manager.catalog_entries import put_in_catalog, release, template, with_layer
from tests.kinds import DEPLOYMENTS
from tests.policies import ANYTHING
from tests.registries import BlobServer, blob_server, packed
from tests.waiting import eventually

Document = dict[str, Any]
KCP, SKR = names.KCP_NAMESPACE, names.SKR_NAMESPACE
KYMA = "demo"
WITHIN = 240.0
INTERVAL_SECONDS = 2
ROUNDS = 3
"""How many reconciles there are at least in which all objects are read: the first may have begun before."""
WORKLOADS = (
    DEPLOYMENTS,
    Resource.dynamic("apps", "v1", "StatefulSet", "statefulsets", namespaced=True),
    Resource.dynamic("apps", "v1", "DaemonSet", "daemonsets", namespaced=True),
    Resource.dynamic("batch", "v1", "Job", "jobs", namespaced=True),
    Resource.dynamic("", "v1", "Service", "services", namespaced=True),
    Resource.dynamic("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", namespaced=True),
    Resource.dynamic("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", namespaced=True),
)


@dataclass(eq=False)
class Landscape:
    """A control plane with a running Lifecycle Manager, and a user cluster, whose administrator `skr` is."""

    kcp: Client
    skr: Client
    registry: BlobServer
    manager: Manager

    async def offer(self, module: str, version: str, text: str, module_cr: Document | None = None) -> None:
        """Put a version of a module into the registry and the catalog, and into the channel of the Kyma.

        Nobody gives its default Module CR a state: it is ready when it is there.
        """
        layer = self.registry.hold(packed({"raw-manifest.yaml": text}))
        document = with_layer(template(module, version, data=module_cr), self.registry.host, layer)
        if module_cr is not None:
            check = {"jsonPath": "kind", "value": module_cr["kind"], "mappedState": "Ready"}
            document["spec"]["customStateCheck"] = [check]
        await put_in_catalog(self.kcp, document)
        await put_in_catalog(self.kcp, release(module, regular=version))

    async def until_introduced(self) -> None:
        """Wait until the user cluster has its Kyma, and no modules of an earlier time."""

        async def introduced() -> bool:
            with suppress(NotFound, KindUnknown, NotServed):
                await self.enable()
                return not (await self.kcp.get(KYMAS, KYMA, KCP)).spec.modules
            return False

        await eventually(introduced, within=WITHIN, what="the user cluster has its Kyma", every=0.2)

    async def enable(self, *modules: str, **given: str) -> None:
        """Have the Kyma want these modules and no others."""
        wanted = [{"name": each, "managed": True, **given} for each in modules]
        patch = {"spec": {"modules": wanted}}
        await self.skr.merge_patch(KYMAS, names.DEFAULT_KYMA_NAME, patch, SKR, field_manager="user")

    async def installed(self, module: str, version: str) -> tuple[InventoryEntry, ...]:
        """Wait until a version is ready; return its objects."""

        async def ready() -> Manifest | None:
            await self._run_workloads()
            found = await self.manifest(module)
            is_reached = (
                found is not None
                and found.spec.version == version
                and found.status.observed_generation == found.metadata.generation
                and found.status.state == "Ready"
            )
            return found if is_reached else None

        try:
            return inventory_of(await eventually(ready, within=WITHIN, what=f"{module} {version} is ready", every=0.5))
        except AssertionError as error:
            manifest = await self.manifest(module)
            kyma = await self.kcp.get(KYMAS, KYMA, KCP)
            raise AssertionError(f"{error}: {manifest.status if manifest else kyma.status}") from None

    async def manifest(self, module: str) -> Manifest | None:
        found = await self.kcp.list(MANIFESTS, KCP, label_selector=f"{names.MODULE_NAME}={module}")
        return found.items[0] if found.items else None

    async def until_gone(self, module: str) -> None:
        """Wait until there is no Manifest of a module any more."""

        async def gone() -> bool:
            return await self.manifest(module) is None

        await eventually(gone, within=WITHIN, what=f"{module} is gone")

    async def waits_for_users(self, module: str) -> None:
        """Wait until the removal of a module waits for users to delete their objects."""

        async def waiting() -> bool:
            manifest = await self.manifest(module)
            ready = find(manifest.status.conditions, "Ready") if manifest is not None else None
            return ready is not None and ready.reason == MODULE_CRS_IN_USE

        await eventually(waiting, within=WITHIN, what=f"the removal of {module} waits for users")

    async def sync(self, module: str, texts: Sequence[str]) -> tuple[InventoryEntry, ...]:
        """Have SyncResources bring the objects of texts; wait until they are applied, and return them."""
        spec = {"kyma": KYMA, "module": module}
        for number, text in enumerate(texts):
            document = {"metadata": {"name": f"{module}-{number}"}, "spec": {**spec, "resource": text}}
            await self.kcp.create(SYNC_RESOURCES, document, KCP, field_manager="module-manager")

        async def ready() -> list[SyncResource]:
            await self._run_workloads()
            found = (await self.kcp.list(SYNC_RESOURCES, KCP)).items
            return [*found] if all(each.status.state == "Ready" for each in found) else []

        try:
            found = await eventually(ready, within=WITHIN, what="the SyncResources are ready", every=0.5)
        except AssertionError as error:
            states = [each.status.conditions for each in (await self.kcp.list(SYNC_RESOURCES, KCP)).items]
            raise AssertionError(f"{error}: {states}") from None
        return tuple(entry for each in found for entry in inventory_of(each))

    async def unsync(self) -> None:
        """Delete all SyncResources at the same time, and wait until they are gone."""
        for each in (await self.kcp.list(SYNC_RESOURCES, KCP)).items:
            await self.kcp.delete(SYNC_RESOURCES, each.metadata.name, KCP)

        async def gone() -> bool:
            return not (await self.kcp.list(SYNC_RESOURCES, KCP)).items

        await eventually(gone, within=WITHIN, what="the SyncResources are gone")

    async def rests(self, entries: Collection[InventoryEntry], controller: str = "manifest", owners: int = 1) -> None:
        """Check that objects are read again as the interval has it, and the product writes none of them."""
        before, done = await self._written(entries), self._reconciles(controller)

        async def read_again() -> bool:
            return self._reconciles(controller) >= done + ROUNDS * owners

        await eventually(read_again, within=WITHIN, what="all objects are read again", every=0.1)
        after = await self._written(entries)
        written = [f"{each}: {before[each]} became {after[each]}" for each in entries if after[each] != before[each]]
        assert not written, f"written again without a reason: {written}"

    async def _written(self, entries: Iterable[InventoryEntry]) -> dict[InventoryEntry, list[str]]:
        """Return who wrote objects, and when: but for the API server, which writes the status of large CRDs later."""
        found = {}
        for entry in entries:
            managers = (await self.live(entry) or {"metadata": {}})["metadata"].get("managedFields", ())
            others = (each for each in managers if each["manager"] != "kube-apiserver")
            found[entry] = sorted(f"{each['manager']}/{each.get('subresource', '')} {each['time']}" for each in others)
        return found

    def _reconciles(self, controller: str) -> float:
        labels = ({"controller": controller, "result": each} for each in RESULTS)
        name = "controller_runtime_reconcile_total"
        return sum(self.manager.registry.get_sample_value(name, each) or 0.0 for each in labels)

    @asynccontextmanager
    async def carrying(self, module: str) -> AsyncIterator[None]:
        """Have a module in the cluster that may have SyncResources with anything."""
        config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": module}}
        await self.offer(module, "1.0.0", dump_yaml(config_map))
        policy = {"metadata": {"name": module}, "spec": plain(ANYTHING)}
        await self.kcp.apply(MODULE_POLICIES, module, policy, KCP, field_manager="operator")
        await self.enable(module)
        await self.installed(module, "1.0.0")
        try:
            yield
        finally:
            await self.unsync()
            await self.enable()
            await self.until_gone(module)

    async def entry_of(self, document: Document) -> InventoryEntry:
        """Return what an object is in the user cluster."""
        resource = await self.skr.mapper.resource(document["apiVersion"], document["kind"])
        namespace = SKR if resource.namespaced else ""
        return InventoryEntry(resource.group, resource.version, resource.kind, namespace, document["metadata"]["name"])

    async def create(self, document: Document) -> None:
        """Create an object in the user cluster, as a user."""
        resource = await self.skr.mapper.resource(document["apiVersion"], document["kind"])
        await self.skr.create(resource, document, SKR if resource.namespaced else None, field_manager="user")

    async def delete(self, entry: InventoryEntry) -> None:
        """Delete an object in the user cluster, as a user."""
        resource = await self.skr.mapper.resource(entry.api_version, entry.kind)
        await self.skr.delete(resource, entry.name, entry.namespace or None)

    async def live(self, entry: InventoryEntry) -> Document | None:
        """Return an object of the user cluster, None where there is none."""
        with suppress(NotFound, KindUnknown, NotServed):
            resource = await self.skr.mapper.resource(entry.api_version, entry.kind)
            return await self.skr.get(resource, entry.name, entry.namespace or None)
        return None

    async def left(self, entries: Iterable[InventoryEntry]) -> list[InventoryEntry]:
        return [entry for entry in entries if await self.live(entry) is not None]

    async def _run_workloads(self) -> None:
        """Say of every workload that it runs, as its controller, a kubelet and a cloud would."""
        for resource in WORKLOADS:
            for each in (await self.skr.list(resource)).items:
                status = running_status(each)
                if not status.items() <= each.get("status", {}).items():
                    metadata = each["metadata"]
                    with suppress(NotFound):  # an upgrade or a removal deletes it meanwhile
                        await self.skr.merge_patch(
                            resource,
                            metadata["name"],
                            {"status": status},
                            metadata["namespace"],
                            subresource="status",
                            field_manager="kubelet",
                        )


def running_status(workload: Document) -> Document:
    """Return the status of a workload that runs, or of a Job, a Service, a claim or a budget that has what it needs."""
    if workload["kind"] == "PersistentVolumeClaim":
        return {"phase": "Bound"}
    if workload["kind"] == "Service":
        is_balanced = workload["spec"].get("type") == "LoadBalancer"
        return {"loadBalancer": {"ingress": [{"ip": "192.0.2.1", "ipMode": "VIP"}]}} if is_balanced else {}
    if workload["kind"] == "Job":
        at = workload["metadata"]["creationTimestamp"]
        states = [
            {"type": each, "status": "True", "lastTransitionTime": at} for each in ("SuccessCriteriaMet", "Complete")
        ]
        return {
            "startTime": at,
            "completionTime": at,
            "succeeded": 1,
            "uncountedTerminatedPods": {},
            "conditions": states,
        }
    observed = {"observedGeneration": workload["metadata"]["generation"]}
    if workload["kind"] == "PodDisruptionBudget":
        return observed | dict.fromkeys(("currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods"), 1)
    count = workload["spec"].get("replicas", 1)
    if workload["kind"] == "DaemonSet":
        fields = ("currentNumberScheduled", "desiredNumberScheduled", "numberReady", "updatedNumberScheduled")
        return {**observed, **dict.fromkeys((*fields, "numberAvailable"), 1), "numberMisscheduled": 0}
    return {**observed, **dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), count)}


@asynccontextmanager
async def open_landscape(kubeconfig: Path) -> AsyncIterator[Landscape]:
    """Run a Lifecycle Manager with the cluster of this kubeconfig until the block ends."""
    options: dict[str, Any] = {
        "allow_insecure_kubeconfigs": True,
        "allow_unprotected_modules": True,
        "module_upgrade_rollout_max_delay": timedelta(0),
        "manifest_requeue_success_interval": timedelta(seconds=INTERVAL_SECONDS),
        **{f"{name}_bind_address": "127.0.0.1:0" for name in ("kyma_skr_listener", "metrics", "health_probe")},
    }
    async with AsyncExitStack() as stack:
        simulation = await stack.enter_async_context(serve_simulation())
        kcp = await stack.enter_async_context(await simulated_control_plane(simulation))
        given = ClientOptions(qps=0, timeout_seconds=60)
        skr = await stack.enter_async_context(await Client.from_environment(kubeconfig, options=given))
        registry = await stack.enter_async_context(blob_server())
        await _introduce(kcp, await asyncio.to_thread(kubeconfig.read_bytes))
        manager = await stack.enter_async_context(lifecycle_manager(Settings(options), kcp))
        stopping = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(manager.run(stopping))
            landscape = Landscape(kcp, skr, registry, manager)
            await landscape.until_introduced()
            yield landscape
            stopping.set()


async def _introduce(kcp: Client, kubeconfig: bytes) -> None:
    """Put a Kyma, the access to its cluster, and what its modules may have into the control plane."""
    labels = {names.KYMA_NAME: KYMA, names.MANAGED_BY: names.LIFECYCLE_MANAGER}
    encoded = base64.b64encode(kubeconfig).decode()
    access = {"metadata": {"name": f"kubeconfig-{KYMA}", "labels": labels}, "data": {"config": encoded}}
    await kcp.create(SECRETS, access, KCP, field_manager="operator")
    kyma = {"metadata": {"name": KYMA}, "spec": {"channel": "regular", "modules": []}}
    await kcp.create(KYMAS, kyma, KCP, field_manager="operator")
