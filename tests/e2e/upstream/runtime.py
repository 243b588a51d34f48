"""What a user cluster has beside its API server, played by the tests: a kubelet, and the operators of the modules."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kube_runtime import AlreadyExists, Client, ClusterUnreachable, Conflict, KubeError, NotFound, NotServed, Resource
from kyma_demo.programs import TLS_SECRET, project
from lifecycle_manager.contract.resources import SECRETS
from lifecycle_manager_api import names
from tests.e2e.upstream.modules import BROKEN_IMAGE, Module
from tests.kinds import PODS, SERVICE_ACCOUNTS

Document = dict[str, Any]
SKR = names.SKR_NAMESPACE
INTERVAL_SECONDS = 0.25
"""Each time some six requests are sent."""
WORKLOADS: dict[str, Resource[Document]] = {
    kind: Resource.dynamic("apps", "v1", kind, plural, namespaced=True)
    for kind, plural in (("Deployment", "deployments"), ("StatefulSet", "statefulsets"))
}


@dataclass(eq=False)
class Runtime:
    """Has workloads run, Secrets mounted, and Module CRs in a state; `states` are those that a test wants."""

    skr: Client
    mount: Path
    modules: dict[str, Module] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    _mounted: str | None = None

    async def run(self) -> None:
        """Run until cancelled.

        A request under way times out where the event loop of these tests rests, while others run in their own.
        """
        while True:
            # Deleted or changed meanwhile.
            with suppress(NotFound, NotServed, Conflict, AlreadyExists, ClusterUnreachable):
                await self._mount()
            for kind in WORKLOADS:
                with suppress(NotFound, NotServed, Conflict, AlreadyExists, ClusterUnreachable):
                    await self._run_workloads(kind)
            for module in tuple(self.modules.values()):
                with suppress(KubeError):  # its CRD comes and goes
                    await self._reconcile(module)
            await asyncio.sleep(INTERVAL_SECONDS)

    async def _mount(self) -> None:
        secret = await self.skr.get(SECRETS, TLS_SECRET, SKR)
        if secret.metadata.resource_version != self._mounted:
            project(secret, self.mount)
            self._mounted = secret.metadata.resource_version

    async def _run_workloads(self, kind: str) -> None:
        for live in (await self.skr.list(WORKLOADS[kind], SKR)).items:
            name, generation = live["metadata"]["name"], live["metadata"]["generation"]
            images = [each["image"] for each in live["spec"]["template"]["spec"]["containers"]]
            runs = not any(image.startswith(BROKEN_IMAGE) for image in images)
            wanted = live["spec"].get("replicas", 1)
            status = live.get("status") or {}
            if status.get("observedGeneration") == generation and status.get("replicas", 0) == wanted:
                continue
            ready = dict.fromkeys(("updatedReplicas", "readyReplicas", "availableReplicas"), wanted) if runs else {}
            patch = {"status": {"observedGeneration": generation, "replicas": wanted, **ready}}
            await self.skr.merge_patch(WORKLOADS[kind], name, patch, SKR, subresource="status", field_manager="kubelet")
            if not runs:
                await self._fail(live, images[0])

    async def _fail(self, workload: Document, image: str) -> None:
        """Create a Pod whose image can't be pulled."""
        name = f"{workload['metadata']['name']}-0"
        labels = workload["spec"]["template"]["metadata"]["labels"]
        spec = {"containers": [{"name": "manager", "image": image}], "serviceAccountName": "default"}
        account = {"metadata": {"name": "default"}}
        with suppress(AlreadyExists):
            await self.skr.create(SERVICE_ACCOUNTS, account, SKR, field_manager="kubelet")
        owner = {
            "apiVersion": "apps/v1",
            "kind": workload["kind"],
            "name": workload["metadata"]["name"],
            "uid": workload["metadata"]["uid"],
        }
        pod = {"metadata": {"name": name, "labels": labels, "ownerReferences": [owner]}, "spec": spec}
        await self.skr.create(PODS, pod, SKR, field_manager="kubelet")
        waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}
        container = {"name": "manager", "image": image, "imageID": "", "ready": False, "restartCount": 0}
        status = {"containerStatuses": [{**container, "state": waiting}]}
        await self.skr.merge_patch(PODS, name, {"status": status}, SKR, subresource="status", field_manager="kubelet")

    async def _reconcile(self, module: Module) -> None:
        """Set the state of a module's Module CRs, as its operator does: what is being deleted says so."""
        resource = module.samples()
        for live in (await self.skr.list(resource)).items:
            metadata = live["metadata"]
            state = "Deleting" if metadata.get("deletionTimestamp") else self.states.get(module.name, "Ready")
            state = self.states.get(module.name, state)
            if (live.get("status") or {}).get("state") != state:
                patch = {"status": {"state": state}}
                namespace = metadata.get("namespace")
                await self.skr.merge_patch(
                    resource, metadata["name"], patch, namespace, subresource="status", field_manager="operator"
                )


def names_of(found: Iterable[Document]) -> set[str]:
    return {each["metadata"]["name"] for each in found}
