"""A module with a namespace of its own in KCP, on real API servers: its rights, and its moves there and back."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from kube_runtime import Client, ClientOptions, Forbidden, NotFound, Resource, dump_yaml
from kyma_demo import processes
from kyma_demo.environment import Environment
from kyma_demo.object_watcher import CONFIG_MAPS
from kyma_demo.walkthrough import Walkthrough
from kyma_fleet.identities import create_identity
from kyma_local.private_files import write_private
from kyma_module_manager.rights import roles_of
from lifecycle_manager.contract.resources import MODULE_CONFIGS, MODULE_POLICIES, NAMESPACES, SYNC_RESOURCES
from lifecycle_manager.process.crd_installation import apply_objects
from lifecycle_manager_api import SyncResource, find, names
from lifecycle_manager_api.documents import plain
from tests.integration.lifecycle_manager.programs import with_options
from tests.integration.lifecycle_manager.test_sync_resources import ALLOWED, config_map, set_policy, text_of
from tests.registries import BlobServer
from tests.waiting import eventually, is_gone

KCP, SKR = names.KCP_NAMESPACE, names.SKR_NAMESPACE
MODULE, CONFIG, AGENT = "cloud-resources", "demo-cloud-resources", "agent"
OWN, FOREIGN = "module-cloud-resources", "foreign"
MANAGER, OWN_MANAGER = "module-manager", "own-module-manager"
DEPLOYMENTS: Resource[dict[str, Any]] = Resource.dynamic("apps", "v1", "Deployment", "deployments", namespaced=True)
POLICIES: Resource[dict[str, Any]] = Resource.dynamic(
    "networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", namespaced=True
)
VOLUMES: Resource[dict[str, Any]] = Resource.dynamic(
    "", "v1", "PersistentVolume", "persistentvolumes", namespaced=False
)
BINDING = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "RoleBinding",
    "metadata": {"name": "lifecycle-manager", "namespace": OWN},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "lifecycle-manager-modules"},
    "subjects": [{"kind": "ServiceAccount", "name": "lifecycle-manager", "namespace": KCP}],
}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": AGENT, "namespace": SKR},
    "spec": {
        "selector": {"matchLabels": {"app": AGENT}},
        "template": {
            "metadata": {"labels": {"app": AGENT}},
            "spec": {"containers": [{"name": AGENT, "image": AGENT}]},
        },
    },
}


def namespace(name: str) -> str:
    return dump_yaml({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


@pytest_asyncio.fixture(scope="module", loop_scope="session", autouse=True)
async def installed(walkthrough: Walkthrough, layers: BlobServer) -> AsyncIterator[None]:
    """The namespace without a label, with the rights of LM there; the module may have a Deployment."""
    environment = walkthrough.environment
    role = files("lifecycle_manager.rbac").joinpath("kcp-modules.yaml").read_text()
    for text in (namespace(OWN), namespace(FOREIGN), role, dump_yaml(BINDING)):
        await apply_objects(environment.kcp, text)
    before = await environment.kcp.get(MODULE_POLICIES, MODULE, KCP)
    await set_policy(environment, [*ALLOWED, {"group": "apps", "kind": "Deployment"}])
    yield
    document = {"metadata": {"name": MODULE, "namespace": KCP}, "spec": plain(before.spec)}
    await environment.kcp.apply(MODULE_POLICIES, MODULE, document, KCP, field_manager="test")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def own_program(walkthrough: Walkthrough) -> processes.Program:
    """The Module Manager with its Role in its own namespace alone."""
    environment = walkthrough.environment
    kubeconfig = await create_identity(
        environment.kcp,
        environment.kcp_kubeconfig,
        name=OWN_MANAGER,
        namespace=OWN,
        roles=roles_of(MODULE, OWN),
    )
    file = write_private(environment.directory / f"{OWN_MANAGER}.kubeconfig", kubeconfig)
    started = walkthrough.programs.started[MANAGER]
    return with_options(started, f"--kubeconfig={file}", f"--namespace={OWN}", name=OWN_MANAGER)


@asynccontextmanager
async def client_of(program: processes.Program) -> AsyncIterator[Client]:
    """The API server of KCP with the rights of a program."""
    (option,) = (each for each in program.command if each.startswith("--kubeconfig="))
    options = ClientOptions(qps=0, timeout_seconds=60)
    async with await Client.from_kubeconfig(Path(option.partition("=")[2]), options=options) as client:
        yield client


async def mark(environment: Environment, *, label: str | None = MODULE, retired: str | None = None) -> None:
    """Set or remove what makes the namespace the module's own."""
    metadata = {"labels": {names.MODULE_NAME: label}, "annotations": {names.RETIRED: retired}}
    await environment.kcp.merge_patch(NAMESPACES, OWN, {"metadata": metadata})


def sync_resource(name: str, where: str, text: str, *, module: str = MODULE, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": SYNC_RESOURCES.api_version,
        "kind": SYNC_RESOURCES.kind,
        "metadata": {"name": name, "namespace": where, **metadata},
        "spec": {"kyma": "demo", "module": module, "resource": text},
    }


async def write_agent(environment: Environment, where: str) -> None:
    """Write a second SyncResource for the ModuleConfig of a namespace, as soon as that exists; with a Deployment."""

    async def uid() -> str | None:
        configs = (await environment.kcp.list(MODULE_CONFIGS, where)).items
        return next((each.metadata.uid for each in configs if each.metadata.name == CONFIG), None)

    owner = {
        "apiVersion": MODULE_CONFIGS.api_version,
        "kind": MODULE_CONFIGS.kind,
        "name": CONFIG,
        "uid": await eventually(uid, what=f"a ModuleConfig in {where}"),
        "controller": True,
        "blockOwnerDeletion": True,
    }
    document = sync_resource(AGENT, where, text_of(DEPLOYMENT), ownerReferences=[owner])
    await environment.kcp.apply(SYNC_RESOURCES, AGENT, document, where, field_manager="test")


@dataclass(frozen=True)
class Objects:
    """The module's objects in the SKR: who owns each, and what would differ after a deletion or a restart."""

    owners: dict[str, str]
    states: dict[str, tuple[Any, ...]]


async def objects(environment: Environment) -> Objects:
    """Return the module's objects. A Deployment counts changes of its annotations as generations, so not by that."""
    found = {
        f"{kind.kind} {each['metadata']['name']}": each
        for kind in (CONFIG_MAPS, VOLUMES, POLICIES, DEPLOYMENTS)
        for each in (await environment.skr.list(kind, label_selector=f"{names.MODULE_NAME}={MODULE}")).items
    }
    metadata = {name: each["metadata"] for name, each in found.items()}
    return Objects(
        {name: each["annotations"][names.OWNED_BY].partition("/")[0] for name, each in metadata.items()},
        {
            name: (each["uid"], found[name].get("spec") if name.startswith("Deployment") else each.get("generation"))
            for name, each in metadata.items()
        },
    )


async def is_empty(environment: Environment, where: str) -> bool:
    """Tell whether nothing of the module is left in a namespace."""
    kinds: tuple[Resource[Any], ...] = (MODULE_CONFIGS, SYNC_RESOURCES)
    listed = [(await environment.kcp.list(kind, where)).items for kind in kinds]
    return not [each for items in listed for each in items if each.spec.module == MODULE]


async def test_module_moves_into_its_own_namespace_and_back_without_a_restart(
    walkthrough: Walkthrough, own_program: processes.Program
) -> None:
    environment, programs = walkthrough.environment, walkthrough.programs
    await walkthrough.change_volume("501Gi", within=60)
    await write_agent(environment, KCP)

    async def deployed() -> bool:
        return f"Deployment {AGENT}" in (await objects(environment)).owners

    await eventually(deployed)
    before = await objects(environment)
    assert set(before.owners.values()) == {KCP}
    assert {name.partition(" ")[0] for name in before.owners} >= {"ConfigMap", "Deployment", "PersistentVolume"}

    await mark(environment)
    await write_agent(environment, OWN)
    # Nobody handles the ModuleConfigs in the new namespace yet, so those in the former one stay in force.
    await walkthrough.change_volume("502Gi", within=60)
    await programs.start(own_program)
    try:
        await eventually(lambda: is_empty(environment, KCP), what="the former namespace is empty", within=120)
        moved = await objects(environment)
        assert set(moved.owners.values()) == {OWN}
        assert moved.states == before.states
        await programs.stop(MANAGER)
        await walkthrough.change_volume("503Gi", within=60)

        await mark(environment, retired="true")
        await write_agent(environment, KCP)
        await walkthrough.change_volume("504Gi", within=60)
        await programs.restart(MANAGER)
        await eventually(lambda: is_empty(environment, OWN), what="the own namespace is empty", within=120)
        back = await objects(environment)
        assert set(back.owners.values()) == {KCP}
        assert back.states == before.states
    finally:
        await programs.stop(OWN_MANAGER)
        await mark(environment, label=None)
        with suppress(NotFound):
            await environment.kcp.delete(SYNC_RESOURCES, AGENT, KCP)
    await walkthrough.change_volume("505Gi", within=60)


async def test_manager_in_its_own_namespace_cannot_read_or_write_elsewhere(
    environment: Environment, own_program: processes.Program
) -> None:
    """RBAC and the admission policy refuse it."""
    async with client_of(own_program) as own:
        assert not (await own.list(MODULE_CONFIGS, OWN)).items
        for where in (KCP, FOREIGN, None):
            with pytest.raises(Forbidden):
                await own.list(MODULE_CONFIGS, where)
            with pytest.raises(Forbidden):
                await own.list(SYNC_RESOURCES, where)
        document = sync_resource("mine", KCP, "")
        with pytest.raises(Forbidden):
            await own.create(SYNC_RESOURCES, document, KCP, field_manager="test")
        document = sync_resource("others", OWN, "", module="telemetry")
        with pytest.raises(Forbidden, match="telemetry"):
            await own.create(SYNC_RESOURCES, document, OWN, field_manager="test")


async def test_namespace_without_a_label_is_never_acted_on(environment: Environment) -> None:
    """Not even where its owner gives the Lifecycle Manager the rights for it."""
    binding = {**BINDING, "metadata": {"name": "lifecycle-manager", "namespace": FOREIGN}}
    await apply_objects(environment.kcp, dump_yaml(binding))
    text = text_of(config_map("foreign"))
    await environment.kcp.create(SYNC_RESOURCES, sync_resource("foreign", FOREIGN, text), FOREIGN, field_manager="test")
    later = sync_resource("later", KCP, text_of(config_map("later")))
    await environment.kcp.create(SYNC_RESOURCES, later, KCP, field_manager="test")

    async def applied() -> bool:
        return not await is_gone(environment.skr.get(CONFIG_MAPS, "later", SKR))

    await eventually(applied)
    assert await is_gone(environment.skr.get(CONFIG_MAPS, "foreign", SKR))
    untouched: SyncResource = await environment.kcp.get(SYNC_RESOURCES, "foreign", FOREIGN)
    assert untouched.metadata.finalizers == ()
    assert {each.reason for each in untouched.status.conditions} == {"Pending"}
    await environment.kcp.delete(SYNC_RESOURCES, "foreign", FOREIGN)
    await environment.kcp.delete(SYNC_RESOURCES, "later", KCP)
    await eventually(lambda: is_gone(environment.kcp.get(SYNC_RESOURCES, "later", KCP)))


async def test_sync_resource_of_another_module_is_refused_in_the_own_namespace_of_a_module(
    environment: Environment,
) -> None:
    await mark(environment)
    document = sync_resource("strange", OWN, text_of(config_map("strange", "telemetry")), module="telemetry")
    await environment.kcp.create(SYNC_RESOURCES, document, OWN, field_manager="test")

    async def refused() -> bool:
        found: SyncResource = await environment.kcp.get(SYNC_RESOURCES, "strange", OWN)
        valid = find(found.status.conditions, "Valid")
        return valid is not None and valid.reason == "WrongNamespace"

    try:
        await eventually(refused)
        assert await is_gone(environment.skr.get(CONFIG_MAPS, "strange", "telemetry"))
    finally:
        await environment.kcp.delete(SYNC_RESOURCES, "strange", OWN)
        await mark(environment, retired="true")
        await eventually(lambda: is_empty(environment, OWN), what="the own namespace is empty", within=120)
        await mark(environment, label=None)
