"""The status of a Module CR ends as the last edit deserves, whatever happens to the Lifecycle Manager on the way.

The controllers from the Module CR to the objects and back run on a Manager, together with a Module Manager, against a
simulated KCP and SKR. They are killed after their writes, started on views of the past, kept from seeing changes, and
cancelled at their awaits.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, cast

from prometheus_client import CollectorRegistry

from kube_runtime import (
    SYSTEM_CLOCK,
    Client,
    load_yaml,
)
from kyma_module_manager import PermanentError, module_manager
from kyma_module_manager.controller import setup as set_up_module_manager
from kyma_module_manager.metrics import ManagerMetrics
from kyma_module_manager.reconciler import Reconciler
from kyma_module_manager.writer import ClusterWriter
from lifecycle_manager import module_config, module_cr_status, sync_resource
from lifecycle_manager.contract.resources import (
    KYMAS,
    MODULE_CONFIGS,
    MODULE_POLICIES,
    SYNC_RESOURCES,
)
from lifecycle_manager.module_catalog.module_kinds import ModuleKinds
from lifecycle_manager.module_config import ModuleConfigSettings
from lifecycle_manager.module_cr_status import ModuleCrStatusSettings
from lifecycle_manager.process.telemetry import ChangeLatency
from lifecycle_manager.skr.connections import Connections
from lifecycle_manager.sync_resource import SyncResourceSettings
from lifecycle_manager_api import KindRule, ModuleCrRule, ModulePolicySpec, NamespacedResources, crds, names
from lifecycle_manager_api.documents import plain
from tests import builders
from tests.faults import Process, Users, Workload, check_under_faults
from tests.kinds import INFRASTRUCTURES
from tests.observed_manager import ObservedManager

KCP, SKR = names.KCP_NAMESPACE, names.SKR_NAMESPACE
MODULE = "cloud-resources"
PLACES = 4
SECONDS = 0.2
LISTED = NamespacedResources(allow=(KindRule(kind="ConfigMap", names=("*",)),))
ONLY_CONFIG_MAPS = ModulePolicySpec(
    namespaced_resources=LISTED,
    module_cr_kinds=(ModuleCrRule(group=INFRASTRUCTURES.group, kind=INFRASTRUCTURES.kind),),
)
TEMPLATE = builders.as_written(builders.template())
INITIAL = (
    {
        "apiVersion": MODULE_POLICIES.api_version,
        "kind": MODULE_POLICIES.kind,
        "metadata": {"name": MODULE, "namespace": KCP},
        "spec": plain(ONLY_CONFIG_MAPS),
    },
    TEMPLATE | {"metadata": {"name": TEMPLATE["metadata"]["name"], "namespace": KCP}},
    {
        "apiVersion": KYMAS.api_version,
        "kind": KYMAS.kind,
        "metadata": {"name": "demo", "namespace": KCP},
        "spec": {"channel": "regular", "modules": []},
    },
)
REFERENCE = {"metadata": {"name": TEMPLATE["metadata"]["name"], "namespace": KCP}}
HAS_MODULE = {"state": "Ready", "modules": [{"name": MODULE, "state": "Ready", "template": REFERENCE}]}
CRD = load_yaml(files("kyma_module_manager.samples.cloud_resources").joinpath("crd.yaml").read_text())


@module_manager(MODULE, crd=dict)
def render(module_cr: dict[str, Any]) -> list[dict[str, Any]]:
    """Return one object; an internet-wide network is refused, and a kind that the module may not have is returned."""
    network = module_cr["spec"]["vpcPeerings"][0]["remoteNetwork"]
    if network == "0.0.0.0/0":
        raise PermanentError("the whole internet", reason="NetworkTooWide")
    kind = "Secret" if network == "10.9.0.0/16" else "ConfigMap"
    metadata = {"name": "network", "namespace": SKR}
    return [{"apiVersion": "v1", "kind": kind, "metadata": metadata, "data": {"network": network}}]


async def unavailable(link: str) -> str:
    """Stand in for downloads, which this module does not need."""
    raise AssertionError(f"nothing is downloaded from {link}")


@dataclass
class Lender:
    """Lends the client of the SKR, as Connections do."""

    life: Process

    @asynccontextmanager
    async def to(self, _kyma: str) -> AsyncIterator[Client]:
        yield self.life.clients["skr"]


async def process(life: Process) -> None:
    """Run the controllers, and a Module Manager."""
    manager = ObservedManager(life, resync_seconds=SECONDS)
    connections = cast("Connections", Lender(life))
    latency, kinds = ChangeLatency(CollectorRegistry(), SYSTEM_CLOCK), ModuleKinds(unavailable)
    settings = ModuleConfigSettings(interval_seconds=SECONDS)
    module_config.setup(manager, connections, kinds=kinds, latency=latency, settings=settings)
    sync_resource.setup(manager, connections, latency, SyncResourceSettings(interval_seconds=SECONDS))
    module_cr_status.setup(manager, connections, ModuleCrStatusSettings())
    configs = manager.informer(MODULE_CONFIGS, namespace=None)
    sync_resources = manager.informer(SYNC_RESOURCES, namespace=None)
    writer = ClusterWriter(manager.client, "module-manager")
    reconciler = Reconciler(render, configs, sync_resources, writer, ManagerMetrics(MODULE))
    set_up_module_manager(manager, reconciler, name="module-manager")
    await manager.run(asyncio.Event())


async def edit(users: Users, network: str) -> None:
    """Have a user write a Module CR, and wait until everything came to rest."""
    spec = {"vpcPeerings": [{"name": "billing", "remoteNetwork": network}]}
    document = {"metadata": {"name": "default"}, "spec": spec}
    await users.clients["skr"].apply(INFRASTRUCTURES, "default", document, SKR, field_manager="user")
    await users.settled()


async def answer(users: Users) -> tuple[str, str] | None:
    """Return the state and the reason that the user sees of the last edit; None while it is not answered."""
    module_cr = await users.clients["skr"].get(INFRASTRUCTURES, "default", SKR)
    status = module_cr.get("status") or {"state": "", "conditions": [{"reason": ""}]}
    (ready,) = status["conditions"]
    generations = {status.get("observedGeneration"), ready.get("observedGeneration")}
    is_answer = generations == {module_cr["metadata"]["generation"]} and status["state"] != "Processing"
    return (status["state"], ready["reason"]) if is_answer else None


EXPECTED = {"0.0.0.0/0": ("Error", "NetworkTooWide"), "10.9.0.0/16": ("Error", "PolicyViolation")}
"""What users have to be told about these networks; all others are ready."""
NETWORKS = ("0.0.0.0/0", "10.1.0.0/16", "10.9.0.0/16", "10.2.0.0/16")


def workload(answers: set[tuple[str, str] | None]) -> Workload:
    """Return the workload of these edits. The answers to the last one are added to `answers`."""
    kcp, skr_namespace = ({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in (KCP, SKR))

    async def script(users: Users) -> None:
        await users.clients["kcp"].apply(
            KYMAS, "demo", {"status": HAS_MODULE}, KCP, field_manager="user", subresource="status"
        )
        for network in NETWORKS:
            await edit(users, network)
            shown = await answer(users)
            assert shown in {None, EXPECTED.get(network, ("Ready", "Applied"))}, f"{network} is answered by {shown}"
        answers.add(shown)

    return Workload(
        process=process,
        script=script,
        clusters=("kcp", "skr"),
        initial={"kcp": (kcp, *crds.all_crds(), *INITIAL), "skr": (skr_namespace, CRD)},
        ignored=frozenset({"config", "observedGeneration", "resource", names.MODULE_CONFIG_GENERATION}),
        resync_seconds=SECONDS,
    )


async def test_answer_is_that_to_the_last_edit_whatever_happens() -> None:
    """Until it is known the status is Processing, or about an earlier generation."""
    answers: set[tuple[str, str] | None] = set()
    report = await check_under_faults(workload(answers), max_places=PLACES, timeout_seconds=90)
    report.raise_findings()
    assert report.runs["KillAfterWrite"] == report.runs["CutAtAwait"] == PLACES
    assert answers - {None} == {("Ready", "Applied")}
