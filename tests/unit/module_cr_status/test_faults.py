"""The status of a Module CR ends as the last edit deserves, whatever happens to the Lifecycle Manager on the way.

The controllers from the Module CR to the objects and back run on a Manager, together with a Module Manager, against a
simulated KCP and SKR. They are killed after their writes, started on views of the past, kept from seeing changes, and
cancelled at their awaits.
"""

import asyncio
import base64
from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from kube_runtime import (
    SYSTEM_CLOCK,
    ClientOptions,
    Controller,
    EventRecorder,
    KubeconfigPolicy,
    Manager,
    Resource,
    load_yaml,
)
from kube_simulation.faults import Process, Users, Workload, check_under_faults
from kube_simulation.faults.faults import AGENT
from kyma_module_manager import PermanentError, module_manager
from kyma_module_manager.controller import setup as set_up_module_manager
from kyma_module_manager.metrics import ManagerMetrics
from kyma_module_manager.reconciler import Reconciler
from kyma_module_manager.writer import ClusterWriter
from lifecycle_manager import module_config, module_cr_status, skr, sync_resource
from lifecycle_manager.module_catalog.module_kinds import ModuleKinds
from lifecycle_manager.module_config import ModuleConfigSettings
from lifecycle_manager.module_cr_status import ModuleCrStatusSettings
from lifecycle_manager.resources import (
    KYMAS,
    MODULE_CONFIGS,
    MODULE_POLICIES,
    MODULE_TEMPLATES,
    SECRETS,
    SYNC_RESOURCES,
)
from lifecycle_manager.skr import ACCESS_SECRETS, OUR_SECRETS, Connections
from lifecycle_manager.sync_resource import SyncResourceSettings
from lifecycle_manager.telemetry import ChangeLatency
from lifecycle_manager_api import KindRule, ModulePolicySpec, NamespacedResources, crds, names
from lifecycle_manager_api.documents import plain
from tests import builders

KCP, SKR = names.KCP_NAMESPACE, names.SKR_NAMESPACE
MODULE = "cloud-resources"
PLACES = 5
SECONDS = 0.1
OPTIONS = ClientOptions(qps=0, circuit=True, user_agent=f"{AGENT}/1")
INFRASTRUCTURES: Resource[dict[str, Any]] = Resource.dynamic(
    "cloud-resources.kyma-project.io", "v1beta1", "Infrastructure", "infrastructures", namespaced=True
)
ONLY_CONFIG_MAPS = ModulePolicySpec(namespaced_resources=NamespacedResources(allow=(KindRule(kind="ConfigMap"),)))
CRD = load_yaml(files("kyma_module_manager.samples.cloud_resources").joinpath("crd.yaml").read_text())


class Silence(EventRecorder):
    """Records nothing: the names of Events are never the same twice."""

    def record(self, *_: Any, **__: Any) -> None:
        return

    async def write_to(self, *_: Any, **__: Any) -> None:
        return


class ObservedManager(Manager):
    """A Manager whose reconciles the fault harness counts and cancels."""

    def __init__(self, life: Process) -> None:
        kcp = life.clients["kcp"]
        events = Silence(kcp, controller="test", instance="test")
        super().__init__(kcp, namespace=KCP, events=events, sync_timeout_seconds=60, resync_seconds=SECONDS)
        self.life = life

    def controller(self, name: str, **options: Any) -> Controller[Any, Any]:
        made: Controller[Any, Any] = super().controller(name, **options)
        reconciles = made.reconciles

        def observed(reconcile: Callable[[Any, Any, Any], Awaitable[Any]], **reports: Any) -> None:
            reconciles(self.life.observed(reconcile), **reports)  # type: ignore[arg-type]  # a method is a coroutine function

        setattr(made, "reconciles", observed)  # noqa: B010 - mypy takes no assignment to a method
        return made


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


async def process(life: Process) -> None:
    """Run the controllers, and a Module Manager."""
    manager = ObservedManager(life)
    secrets = manager.informer(SECRETS, label_selector=OUR_SECRETS, indexes=(ACCESS_SECRETS,))
    connections = Connections(secrets, OPTIONS, KubeconfigPolicy.permissive())
    skr.setup(manager, connections)
    latency, kinds = ChangeLatency(CollectorRegistry(), SYSTEM_CLOCK), ModuleKinds(unavailable)
    settings = ModuleConfigSettings(interval_seconds=SECONDS)
    module_config.setup(manager, connections, kinds=kinds, latency=latency, settings=settings)
    sync_resource.setup(manager, connections, latency, SyncResourceSettings(interval_seconds=SECONDS))
    module_cr_status.setup(manager, connections, ModuleCrStatusSettings())
    configs = manager.informer(MODULE_CONFIGS, namespace=None)
    sync_resources = manager.informer(SYNC_RESOURCES, namespace=None)
    writer = ClusterWriter(manager.client, "module-manager")
    reconciler = Reconciler(render, configs, sync_resources, writer, ManagerMetrics(MODULE))
    set_up_module_manager(manager, reconciler, name="module-manager", configs=configs, sync_resources=sync_resources)
    try:
        await manager.run(asyncio.Event())
    finally:
        await connections.close()


async def register(users: Users) -> None:
    """Create a Kyma that has the module, and all that this needs."""
    kcp = users.clients["kcp"]
    template = builders.as_written(builders.template())
    await kcp.create(MODULE_TEMPLATES, template, KCP, field_manager="user")
    policy = {"metadata": {"name": MODULE}, "spec": plain(ONLY_CONFIG_MAPS)}
    await kcp.create(MODULE_POLICIES, policy, KCP, field_manager="user")
    labels = {names.KYMA_NAME: "demo", names.MANAGED_BY: names.LIFECYCLE_MANAGER}
    kubeconfig = {
        "current-context": "skr",
        "contexts": [{"name": "skr", "context": {"cluster": "skr", "user": "user"}}],
        "clusters": [{"name": "skr", "cluster": {"server": users.clients["skr"].server}}],
        "users": [{"name": "user", "user": {}}],
    }
    data = {"config": base64.b64encode(msgspec.json.encode(kubeconfig)).decode()}
    secret = {"metadata": {"name": "kubeconfig-demo", "labels": labels}, "data": data}
    await kcp.create(SECRETS, secret, KCP, field_manager="user")
    kyma = {"metadata": {"name": "demo"}, "spec": {"channel": "regular", "modules": []}}
    await kcp.create(KYMAS, kyma, KCP, field_manager="user")
    reference = {"metadata": {"name": template["metadata"]["name"], "namespace": KCP}}
    status = {"state": "Ready", "modules": [{"name": MODULE, "state": "Ready", "template": reference}]}
    await kcp.apply(KYMAS, "demo", {"status": status}, KCP, field_manager="user", subresource="status")


async def edit(users: Users, network: str) -> None:
    """Have a user write a Module CR, and wait until everything came to rest."""
    spec = {"vpcPeerings": [{"name": "billing", "remoteNetwork": network}]}
    document = {"metadata": {"name": "default"}, "spec": spec}
    await users.clients["skr"].apply(INFRASTRUCTURES, "default", document, SKR, field_manager="user")
    await users.settled()


async def answer(users: Users) -> tuple[str, str, bool]:
    """Return the state and the reason that the user sees, and whether both are about the last edit."""
    module_cr = await users.clients["skr"].get(INFRASTRUCTURES, "default", SKR)
    status = module_cr.get("status") or {"state": "", "conditions": [{"reason": ""}]}
    (ready,) = status["conditions"]
    generations = {status.get("observedGeneration"), ready.get("observedGeneration")}
    return status["state"], ready["reason"], generations == {module_cr["metadata"]["generation"]}


async def end_with_a_mistake(users: Users) -> None:
    await register(users)
    for network in ("10.1.0.0/16", "0.0.0.0/0", "10.9.0.0/16", "10.2.0.0/16", "0.0.0.0/0"):
        await edit(users, network)


async def end_well(users: Users) -> None:
    await register(users)
    for network in ("0.0.0.0/0", "10.1.0.0/16", "10.9.0.0/16", "10.2.0.0/16"):
        await edit(users, network)


def workload(script: Callable[[Users], Awaitable[None]], *expected: str) -> Workload:
    kcp, skr_namespace = ({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in (KCP, SKR))

    async def checked(users: Users) -> None:
        await script(users)
        assert await answer(users) == (*expected, True)

    return Workload(
        process=process,
        script=checked,
        clusters=("kcp", "skr"),
        initial={"kcp": (kcp, *crds.all_crds()), "skr": (skr_namespace, CRD)},
        ignored=frozenset(
            {"config", "observedGeneration", "ownerUid", "resource", names.OWNER_UID, names.MODULE_CONFIG_GENERATION}
        ),
        resync_seconds=SECONDS,
    )


async def test_mistake_is_what_the_user_reads_whatever_happens() -> None:
    expected = workload(end_with_a_mistake, "Error", "NetworkTooWide")
    report = await check_under_faults(expected, max_places=PLACES, patience_seconds=60)
    report.raise_findings()
    assert report.runs["KillAfterWrite"] == report.runs["CutAtAwait"] == PLACES


async def test_correction_is_what_the_user_reads_whatever_happens() -> None:
    report = await check_under_faults(workload(end_well, "Ready", "Applied"), max_places=PLACES, patience_seconds=60)
    report.raise_findings()
