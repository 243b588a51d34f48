"""A pytest plugin that runs managers against a real API server.

    pytest_plugins = ["kyma_module_manager.testing.plugin"]

    async def test_change_follows(managed) -> None:
        async with managed(objects) as harness:
            await harness.write_module_cr(Path("module/example.yaml"))
            written = await harness.sync_resource()

The API server is started once for all tests by kyma-local-clusters, which the extra `testing` installs. The manager has
only the rights of `rbac.yaml` for its module, so that a missing right fails a test.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from kube_runtime import Client, Informer, Resource, dump_yaml
from kyma_module_manager.declaration import ModuleManager
from kyma_module_manager.testing.harness import MANAGER_USER, ManagerHarness, apply_all, run_manager
from kyma_module_manager.writer import MODULE_CONFIGS, SYNC_RESOURCES
from lifecycle_manager_api import crds, names
from lifecycle_manager_api.module_authorization import module_authorization_as_yaml

STRICT = ("--enable-admission-plugins=OwnerReferencesPermissionEnforcement",)
SERVED_SECONDS = 120.0
START_SECONDS = 600.0  # the binaries may have to be downloaded or built first


@dataclass(frozen=True)
class ControlPlane:
    """Kubeconfigs of a control plane with the CRDs: for the test, and for a manager."""

    admin_kubeconfig: Path
    manager_kubeconfig: Path


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane for all tests of the session, on the event loop of a thread of its own."""
    started: Future[ControlPlane] = Future()
    stop = threading.Event()
    thread = threading.Thread(
        target=lambda: asyncio.run(_run_control_plane(tmp_path_factory.mktemp("control-plane"), started, stop)),
        name="control-plane",
    )
    thread.start()
    try:
        yield started.result(START_SECONDS)
    finally:
        stop.set()
        thread.join()


@pytest.fixture
def managed(control_plane: ControlPlane) -> Callable[[ModuleManager[Any]], AbstractAsyncContextManager[ManagerHarness]]:
    """Runs a manager while a block runs: `async with managed(objects) as harness`. Each test has its own Kyma."""
    return partial(
        run_manager,
        kubeconfig=control_plane.manager_kubeconfig,
        admin_kubeconfig=control_plane.admin_kubeconfig,
        kyma=f"kyma-{uuid4().hex[:8]}",
    )


async def _run_control_plane(directory: Path, started: "Future[ControlPlane]", stop: threading.Event) -> None:
    # Imported here, so that pytest can load the plugin without the extra `testing`.
    from kyma_local.clusters import LocalClusters  # noqa: PLC0415

    try:
        async with LocalClusters.start(skrs=0, directory=directory, flags=STRICT) as clusters:
            admin = clusters.kcp.admin_kubeconfig
            await _prepare(admin)
            await clusters.kcp.restart_controllers()  # else objects of the new kinds are collected after 30 s
            started.set_result(ControlPlane(admin, clusters.kcp.kubeconfig_for(MANAGER_USER)))
            await asyncio.to_thread(stop.wait)
    except Exception as error:
        if started.done():
            raise
        started.set_exception(error)


async def _prepare(admin: Path) -> None:
    """Apply the CRDs and the policy by which a manager may write for its own module only."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": names.KCP_NAMESPACE}}
    documents = "---\n".join(map(dump_yaml, (*crds.all_crds(), namespace)))
    async with await Client.from_kubeconfig(admin) as client:
        await apply_all(client, f"{documents}---\n{module_authorization_as_yaml()}")
        await _served(client)


async def _served(client: Client) -> None:
    """Wait until the new kinds are served, which is a moment after their CRDs are accepted."""
    resources: tuple[Resource[Any], ...] = (MODULE_CONFIGS, SYNC_RESOURCES)
    async with asyncio.TaskGroup() as group:
        for resource in resources:
            informer = Informer(client, resource, namespace=names.KCP_NAMESPACE)
            following = group.create_task(informer.run())
            await informer.wait_synced(SERVED_SECONDS)
            following.cancel()
