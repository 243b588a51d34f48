"""Runs a manager on a real control plane; the test plays the user and Lifecycle Manager."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from kube_runtime import (
    Applier,
    Change,
    Client,
    Conflict,
    Informer,
    ObjectKey,
    dump_yaml,
    parse_objects,
)
from kube_runtime.finalizers import remove_finalizers
from kyma_module_manager.declaration import ModuleManager
from kyma_module_manager.rights import roles_of
from kyma_module_manager.service import ManagerService, ServiceOptions
from kyma_module_manager.testing.kit import ModuleCr, module_config_of
from kyma_module_manager.writer import MODULE_CONFIGS, SYNC_RESOURCES
from lifecycle_manager_api import ModuleConfig, State, SyncedObject, SyncResource, names

T = TypeVar("T")
# The garbage collector discovers new kinds every 30 seconds, on a busy machine later.
TIMEOUT_SECONDS = 120.0
FIELD_MANAGER = "lifecycle-manager"
MANAGER_USER = "kyma-module-manager"
RIGHTS = "rbac.authorization.k8s.io"


async def grant(admin: Client, module: str) -> None:
    """Grant the rights of `rbac.yaml` for a module to the user of the tests' managers."""
    documents: list[dict[str, Any]] = []
    for role in roles_of(module):
        name, namespace = role["metadata"]["name"], role["metadata"]["namespace"]
        binding = {
            "apiVersion": role["apiVersion"],
            "kind": "RoleBinding",
            "metadata": {"name": name, "namespace": namespace},
            "roleRef": {"apiGroup": RIGHTS, "kind": "Role", "name": name},
            "subjects": [{"apiGroup": RIGHTS, "kind": "User", "name": MANAGER_USER}],
        }
        documents += [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}, role, binding]
    await apply_all(admin, "---\n".join(map(dump_yaml, documents)))


async def apply_all(admin: Client, text: str) -> None:
    """Apply the objects in a YAML text. Raises KubeError."""
    result = await Applier(admin, field_manager="kyma-module-manager-testing").apply(
        parse_objects(text), (), prune=False
    )
    result.raise_first_failure()


class ManagerHarness:
    """Changes the resources of a running manager, and waits for their state. `client` has all rights."""

    def __init__(self, client: Client, manager: ModuleManager[Any], kyma: str) -> None:
        self.client = client
        self.manager = manager
        self.kyma = kyma
        selector = f"{names.KYMA_NAME}={kyma}"
        self._configs = _Watched(Informer(client, MODULE_CONFIGS, label_selector=selector))
        self._sync_resources = _Watched(Informer(client, SYNC_RESOURCES, label_selector=selector))
        self._deleted: asyncio.Queue[SyncResource] = asyncio.Queue()
        self._sync_resources.informer.on_change(self._note_deleted)

    @classmethod
    @asynccontextmanager
    async def open(
        cls, client: Client, manager: ModuleManager[Any], kyma: str = "test-kyma"
    ) -> AsyncIterator["ManagerHarness"]:
        """Let the manager write for its module, and watch the resources of one Kyma while the block runs."""
        await grant(client, manager.module)
        harness = cls(client, manager, kyma)
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(each.informer.run()) for each in (harness._configs, harness._sync_resources)]
            running.append(group.create_task(harness._remove_finalizers()))
            yield harness
            for task in running:
                task.cancel()

    @property
    def name(self) -> str:
        """Name of the ModuleConfig and of the SyncResource."""
        return f"{self.kyma}-{self.manager.module}"

    async def write_module_cr(self, module_cr: ModuleCr) -> ModuleConfig:
        """Write the ModuleConfig of a Module CR, as Lifecycle Manager does after a user's change."""
        config = module_config_of(self.manager.module, module_cr, kyma=self.kyma)
        metadata = {"name": self.name, "namespace": names.KCP_NAMESPACE, "labels": dict(config.metadata.labels)}
        document = {
            "apiVersion": MODULE_CONFIGS.api_version,
            "kind": MODULE_CONFIGS.kind,
            "metadata": metadata,
            "spec": msgspec.to_builtins(config.spec),
        }
        return await self.client.apply(
            MODULE_CONFIGS, self.name, document, names.KCP_NAMESPACE, field_manager=FIELD_MANAGER
        )

    async def delete_module_cr(self) -> None:
        """Delete the ModuleConfig in the foreground, as Lifecycle Manager does."""
        await self.client.delete(MODULE_CONFIGS, self.name, names.KCP_NAMESPACE, propagation="Foreground")

    async def report(
        self, state: State, synced: Iterable[SyncedObject] = (), *, reason: str = "Applied", message: str = ""
    ) -> SyncResource:
        """Write the status of the SyncResource, as Lifecycle Manager does after applying it."""
        await self.sync_resource()
        current = await self.client.get(SYNC_RESOURCES, self.name, names.KCP_NAMESPACE)
        condition = {
            "type": "Ready",
            "status": "True" if state == State.READY else "False",
            "reason": reason,
            "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        document = {
            "apiVersion": SYNC_RESOURCES.api_version,
            "kind": SYNC_RESOURCES.kind,
            "metadata": {"name": self.name, "namespace": names.KCP_NAMESPACE},
            "status": {
                "state": state.value,
                "observedGeneration": current.metadata.generation,
                "conditions": [condition],
                "synced": [msgspec.to_builtins(each) for each in synced],
            },
        }
        return await self.client.apply(
            SYNC_RESOURCES,
            self.name,
            document,
            names.KCP_NAMESPACE,
            field_manager=FIELD_MANAGER,
            subresource="status",
        )

    async def sync_resource(self, where: Callable[[SyncResource], bool] = lambda _: True) -> SyncResource:
        """Wait until the SyncResource exists and satisfies `where`. Raises TimeoutError with its last state."""
        return await self._sync_resources.exists(self._key, where)

    async def sync_resource_gone(self) -> None:
        """Wait until the SyncResource is deleted. Raises TimeoutError with its last state."""
        await self._sync_resources.deleted(self._key)

    async def module_config(self, where: Callable[[ModuleConfig], bool] = lambda _: True) -> ModuleConfig:
        """Wait until the ModuleConfig exists and satisfies `where`. Raises TimeoutError with its last state."""
        return await self._configs.exists(self._key, where)

    async def module_config_gone(self) -> None:
        """Wait until the ModuleConfig is deleted. Raises TimeoutError with its last state."""
        await self._configs.deleted(self._key)

    def _note_deleted(self, change: Change[SyncResource]) -> None:
        new = change.new
        if new is not None and new.metadata.being_deleted and names.SYNC_RESOURCE_FINALIZER in new.metadata.finalizers:
            self._deleted.put_nowait(new)

    async def _remove_finalizers(self) -> None:
        """Remove the finalizer of deleted SyncResources, as Lifecycle Manager does after deleting their objects."""
        while True:
            metadata = (await self._deleted.get()).metadata
            with suppress(Conflict):  # its next version follows
                await remove_finalizers(
                    self.client, SYNC_RESOURCES, metadata, names.SYNC_RESOURCE_FINALIZER, field_manager=FIELD_MANAGER
                )

    @property
    def _key(self) -> ObjectKey:
        return ObjectKey(names.KCP_NAMESPACE, self.name)


class _Watched(Generic[T]):
    """An informer, and waiting for an object in its cache."""

    def __init__(self, informer: Informer[T]) -> None:
        self.informer = informer
        self._changed = asyncio.Event()
        informer.on_change(lambda _: self._changed.set())

    async def exists(self, key: ObjectKey, where: Callable[[T], bool]) -> T:
        found = await self._until(key, lambda each: each is not None and where(each))
        if found is None:
            raise AssertionError(f"{key} does not exist")
        return found

    async def deleted(self, key: ObjectKey) -> None:
        await self._until(key, lambda each: each is None)

    async def _until(self, key: ObjectKey, wanted: Callable[[T | None], bool]) -> T | None:
        await self.informer.wait_synced(TIMEOUT_SECONDS)
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                while not wanted(found := self.informer.cache.get(key)):
                    self._changed.clear()
                    await self._changed.wait()
                return found
        except TimeoutError as error:
            last = self.informer.cache.get(key)
            raise TimeoutError(f"timed out after {TIMEOUT_SECONDS:g} s; the state of {key} is {last!r}") from error


@asynccontextmanager
async def run_manager(
    manager: ModuleManager[Any], kubeconfig: Path, admin_kubeconfig: Path, *, kyma: str = "test-kyma"
) -> AsyncIterator[ManagerHarness]:
    """Run a manager while the block runs, with the rights of its kubeconfig."""
    stop = asyncio.Event()
    options = ServiceOptions(health_host="127.0.0.1", health_port=0)
    async with (
        await Client.from_kubeconfig(admin_kubeconfig) as admin,
        await Client.from_kubeconfig(kubeconfig) as own,
        ManagerHarness.open(admin, manager, kyma) as harness,
        asyncio.TaskGroup() as group,
    ):
        group.create_task(ManagerService(manager, own, options).run(stop))
        try:
            yield harness
        finally:
            stop.set()
