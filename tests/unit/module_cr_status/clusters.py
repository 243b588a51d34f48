"""The controller of the status of Module CRs on simulated clusters; the other parts of the product are the test's."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, cast

import msgspec

from kube_runtime import Manager, ObjectKey, Result, load_yaml
from kube_simulation import ApiRequest, RequestRecord
from lifecycle_manager.contract.resources import CUSTOM_RESOURCE_DEFINITIONS, MODULE_CONFIGS, SYNC_RESOURCES
from lifecycle_manager.module_cr_status import ModuleCrStatusSettings, setup
from lifecycle_manager.skr.connections import Connections
from lifecycle_manager_api import names
from tests import builders
from tests.clocks import ManualClock
from tests.clusters import Clusters
from tests.kinds import INFRASTRUCTURES

KCP, SKR = names.KCP_NAMESPACE, names.SKR_NAMESPACE
NAME = "demo-cloud-resources"
GROUP = "cloud-resources.kyma-project.io"
SAMPLE = load_yaml(files("kyma_module_manager.samples.cloud_resources").joinpath("crd.yaml").read_text())
OBJECT = {"group": "", "version": "v1", "kind": "ConfigMap", "namespace": "shop", "name": "one", "state": "Ready"}
TOO_WIDE = ("NetworkTooWide", "VPC peering all is with the whole internet")


def crd(status: Mapping[str, Any] | None = None, *, subresource: bool = True) -> dict[str, Any]:
    """Return the CRD of the sample, with other properties of the status if given."""
    document = cast("dict[str, Any]", msgspec.json.decode(msgspec.json.encode(SAMPLE)))
    version = document["spec"]["versions"][0]
    version["additionalPrinterColumns"] = []
    if status is not None:
        version["schema"]["openAPIV3Schema"]["properties"]["status"] = {"type": "object", "properties": dict(status)}
    if not subresource:
        del version["subresources"]
    return document


@dataclass(eq=False)
class Statuses(Clusters):
    """The controller on a Manager; the other parts of the product are the test's."""

    clock: ManualClock = field(default_factory=ManualClock)

    def start(self) -> None:
        self.manager = Manager(self.kcp, namespace=KCP, events=self.events, clock=self.clock)
        self.controller = setup(self.manager, cast("Connections", self), ModuleCrStatusSettings())

    async def install(self, document: dict[str, Any]) -> None:
        await self.skr.apply(
            CUSTOM_RESOURCE_DEFINITIONS, document["metadata"]["name"], document, field_manager="module"
        )

    async def edit(self, cidr: str, name: str = "default", config: str = NAME) -> None:
        """Write a Module CR as a user, and its ModuleConfig as it is read."""
        peering = {"name": "all", "remoteNetwork": cidr}
        document = {"metadata": {"name": name}, "spec": {"vpcPeerings": [peering]}}
        written = await self.skr.apply(INFRASTRUCTURES, name, document, SKR, field_manager="user")
        metadata = written["metadata"]
        reference = {"apiVersion": f"{GROUP}/v1beta1", "kind": "Infrastructure", "namespace": SKR, "name": name}
        reference |= {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        spec = {"kyma": "demo", "module": "cloud-resources", "resource": cidr}
        document = {
            "metadata": {"name": config},
            "spec": spec | {"resourceRef": reference | {"generation": metadata["generation"]}},
        }
        await self.kcp.apply(MODULE_CONFIGS, config, document, KCP, field_manager="lifecycle-manager")

    async def render(self, text: str = "", config: str = NAME) -> None:
        generation = (await self.kcp.get(MODULE_CONFIGS, config, KCP)).metadata.generation
        document = {
            "metadata": {"name": config, "annotations": {names.MODULE_CONFIG_GENERATION: str(generation)}},
            "spec": {"kyma": "demo", "module": "cloud-resources", "resource": text or f"of {generation}"},
        }
        await self.kcp.apply(SYNC_RESOURCES, config, document, KCP, field_manager="manager")

    async def applied(
        self, state: str = "Ready", reason: str = "ObjectsReady", message: str = "", config: str = NAME
    ) -> None:
        """Write the status of the SyncResource, as after its apply."""
        generation = (await self.kcp.get(SYNC_RESOURCES, config, KCP)).metadata.generation
        ready = builders.condition("Ready", reason, message, "True" if state == "Ready" else "False")
        status = {"state": state, "observedGeneration": generation, "synced": [OBJECT], "conditions": [ready]}
        await self.kcp.apply(SYNC_RESOURCES, config, {"status": status}, KCP, field_manager="lm", subresource="status")

    async def report(self, config: str = NAME, **status: Any) -> None:
        """Write the status of the ModuleConfig, as the Module Manager does."""
        generation = (await self.kcp.get(MODULE_CONFIGS, config, KCP)).metadata.generation
        given = {"state": "Ready", "observedGeneration": generation} | status
        await self.kcp.apply(MODULE_CONFIGS, config, {"status": given}, KCP, field_manager="m", subresource="status")

    async def refuse(self, reason: str, message: str, config: str = NAME) -> None:
        """Refuse the Module CR, as the Module Manager does."""
        generation = (await self.kcp.get(MODULE_CONFIGS, config, KCP)).metadata.generation
        refused = builders.condition("Rendered", reason, message, generation=generation)
        await self.report(config, state="Error", conditions=[refused])

    async def reconcile(self, *causes: Any, config: str = NAME) -> Result:
        await self.see(MODULE_CONFIGS, None)
        await self.see(SYNC_RESOURCES, None)
        return await self.controller.reconcile_now(ObjectKey(KCP, config), *causes)

    async def in_force(self, cidr: str) -> None:
        """Edit, and let all others do their part."""
        await self.edit(cidr)
        await self.render()
        await self.applied()
        await self.reconcile()

    async def module_cr(self, name: str = "default") -> dict[str, Any]:
        return await self.skr.get(INFRASTRUCTURES, name, SKR)

    async def status(self, name: str = "default") -> dict[str, Any]:
        return (await self.module_cr(name)).get("status") or {}

    async def operator_writes(self, status: dict[str, Any]) -> None:
        """Write the status as an operator in the SKR does, which asks nobody."""
        await self.skr.merge_patch(
            INFRASTRUCTURES, "default", {"status": status}, SKR, subresource="status", field_manager="operator"
        )


def ready_of(status: dict[str, Any]) -> tuple[str, str, str, int]:
    (ready,) = (each for each in status["conditions"] if each["type"] == "Ready")
    return ready["status"], ready["reason"], ready["message"], ready["observedGeneration"]


def is_status_write(request: ApiRequest | RequestRecord) -> bool:
    return request.cluster == "skr" and request.subresource == "status" and request.is_write


def status_properties() -> dict[str, Any]:
    version = SAMPLE["spec"]["versions"][0]
    return dict(version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"])
