"""A module with a namespace of its own in KCP, on real API servers: by its ModulePolicy, with rights there alone."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from kube_runtime import Client, ClientOptions, Forbidden, Invalid, NotFound, NotServed, dump_yaml
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
from tests.integration.lifecycle_manager.programs import with_options
from tests.integration.lifecycle_manager.test_sync_resources import text_of
from tests.modules import config_map
from tests.waiting import eventually, is_gone

KCP, SKR = names.KCP_NAMESPACE, names.SKR_NAMESPACE
MODULE, OTHER = "cloud-resources", "telemetry"
OWN, FOREIGN = "module-cloud-resources", "foreign"
MANAGER, OWN_MANAGER = "module-manager", "own-module-manager"
POLICY = {"metadata": {"name": OTHER}, "spec": {"controlPlaneNamespace": OWN}}
BINDING = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "RoleBinding",
    "metadata": {"name": "lifecycle-manager", "namespace": OWN},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "lifecycle-manager-modules"},
    "subjects": [{"kind": "ServiceAccount", "name": "lifecycle-manager", "namespace": KCP}],
}


def namespace(name: str) -> str:
    return dump_yaml({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


@pytest_asyncio.fixture(scope="module", loop_scope="session", autouse=True)
async def installed(walkthrough: Walkthrough) -> None:
    """The namespaces, with the rights of LM in one of them."""
    environment = walkthrough.environment
    for text in (namespace(OWN), namespace(FOREIGN), dump_yaml(BINDING)):
        await apply_objects(environment.kcp, text)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def own_program(walkthrough: Walkthrough) -> processes.Program:
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


def sync_resource(name: str, where: str, text: str, *, module: str = MODULE, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": SYNC_RESOURCES.api_version,
        "kind": SYNC_RESOURCES.kind,
        "metadata": {"name": name, "namespace": where, **metadata},
        "spec": {"kyma": "demo", "module": module, "resource": text},
    }


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


async def test_label_on_a_namespace_makes_nothing_in_it_count(
    walkthrough: Walkthrough, environment: Environment
) -> None:
    """An attack: not even where its owner gives the Lifecycle Manager the rights for it."""
    binding = {**BINDING, "metadata": {"name": "lifecycle-manager", "namespace": FOREIGN}}
    await apply_objects(environment.kcp, dump_yaml(binding))
    label = {"metadata": {"labels": {names.MODULE_NAME: MODULE}}}
    await environment.kcp.merge_patch(NAMESPACES, FOREIGN, label)
    document = sync_resource("foreign", FOREIGN, text_of(config_map("foreign-nfs-1")))
    await environment.kcp.create(SYNC_RESOURCES, document, FOREIGN, field_manager="test")
    try:
        await eventually(partial(is_in_wrong_namespace, environment, "foreign", FOREIGN, KCP))
        await walkthrough.change_volume("501Gi", within=60)
        assert not (await environment.kcp.list(MODULE_CONFIGS, FOREIGN)).items
        assert await is_gone(environment.skr.get(CONFIG_MAPS, "foreign-nfs-1", SKR))
        refused: SyncResource = await environment.kcp.get(SYNC_RESOURCES, "foreign", FOREIGN)
        assert refused.metadata.finalizers == ()
    finally:
        await environment.kcp.delete(SYNC_RESOURCES, "foreign", FOREIGN)


async def test_sync_resource_counts_in_the_namespace_of_its_policy_alone(
    walkthrough: Walkthrough, environment: Environment
) -> None:
    async with policy_of_telemetry(environment):
        await walkthrough.set_modules([{"name": each, "managed": True} for each in (MODULE, OTHER)])
        for name, where in (("right", OWN), ("wrong", KCP)):
            document = sync_resource(name, where, text_of(config_map(name, OTHER)), module=OTHER)
            document["metadata"]["annotations"] = {names.CREATE_NAMESPACES: "true"}
            await environment.kcp.create(SYNC_RESOURCES, document, where, field_manager="test")

        async def applied() -> bool:
            return not await is_gone(environment.skr.get(CONFIG_MAPS, "right", OTHER))

        try:
            await eventually(applied)
            await eventually(partial(is_in_wrong_namespace, environment, "wrong", KCP, OWN))
            assert await is_gone(environment.skr.get(CONFIG_MAPS, "wrong", OTHER))
        finally:
            for name, where in (("right", OWN), ("wrong", KCP)):
                await environment.kcp.delete(SYNC_RESOURCES, name, where)
                await eventually(partial(is_deleted, environment, name, where))
            await walkthrough.set_modules([{"name": MODULE, "managed": True}])


async def test_policy_that_would_move_module_configs_is_refused(
    environment: Environment,
) -> None:
    """What the API server asks the webhook. The finalizers keep the ModuleConfigs, which nobody wants."""

    async def refuses(write: Callable[[], Awaitable[Any]]) -> bool:
        try:
            await write()
        except Invalid as error:
            return "a module cannot move" in str(error)
        return False

    create = partial(environment.kcp.create, MODULE_POLICIES, POLICY, KCP, field_manager="test")

    async def delete() -> None:
        await environment.kcp.delete(MODULE_POLICIES, OTHER, KCP)
        await create()  # the ModuleConfig was not seen yet

    async with module_config_of_telemetry(environment, KCP):
        await eventually(partial(refuses, partial(create, dry_run=True)))
    async with policy_of_telemetry(environment), module_config_of_telemetry(environment, OWN):
        await eventually(partial(refuses, delete))


async def is_deleted(environment: Environment, name: str, where: str) -> bool:
    return await is_gone(environment.kcp.get(SYNC_RESOURCES, name, where))


@asynccontextmanager
async def module_config_of_telemetry(environment: Environment, where: str) -> AsyncIterator[None]:
    document = {
        "metadata": {"name": "held", "finalizers": ["example.com/held"]},
        "spec": {"kyma": "demo", "module": OTHER},
    }
    await environment.kcp.create(MODULE_CONFIGS, document, where, field_manager="test")
    try:
        yield
    finally:
        await environment.kcp.merge_patch(MODULE_CONFIGS, "held", {"metadata": {"finalizers": []}}, where)
        with suppress(NotFound, NotServed):
            await environment.kcp.delete(MODULE_CONFIGS, "held", where)


@asynccontextmanager
async def policy_of_telemetry(environment: Environment) -> AsyncIterator[None]:
    """Have a ModulePolicy that names the own namespace; it can be written and deleted once nothing is left."""

    async def done(write: Callable[[], Awaitable[Any]]) -> bool:
        with suppress(Invalid):
            await write()
            return True
        return False

    create = partial(environment.kcp.create, MODULE_POLICIES, POLICY, KCP, field_manager="test")
    await eventually(partial(done, create))
    try:
        yield
    finally:
        await eventually(partial(done, partial(environment.kcp.delete, MODULE_POLICIES, OTHER, KCP)))


async def is_in_wrong_namespace(environment: Environment, name: str, where: str, wanted: str) -> bool:
    """Tell whether a SyncResource is refused with the namespace in which it has to be."""
    found: SyncResource = await environment.kcp.get(SYNC_RESOURCES, name, where)
    valid = find(found.status.conditions, "Valid")
    return valid is not None and valid.reason == "WrongNamespace" and f"in namespace {wanted};" in valid.message
