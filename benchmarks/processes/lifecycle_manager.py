"""Real clusters of a benchmark, and a Lifecycle Manager for them as a process of its own."""

import asyncio
import base64
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from kube_runtime import Client, ClientOptions, Informer, Resource
from kyma_local.clusters import LocalCluster
from kyma_local.ports import free_port
from kyma_local.processes import ChildProcess, start_child, tail
from lifecycle_manager.contract.resources import KYMAS, SECRETS
from lifecycle_manager_api import find, names

MAX_IN_FLIGHT = 64
TIMEOUT_SECONDS = 180.0
UNLIMITED = ClientOptions(qps=0, max_in_flight=MAX_IN_FLIGHT, timeout_seconds=60)


async def open_client(cluster: LocalCluster) -> Client:
    """Return a client of a cluster without limits on requests."""
    return await Client.from_environment(cluster.admin_kubeconfig, options=UNLIMITED)


@asynccontextmanager
async def run_lifecycle_manager(kubeconfig: Path, folder: Path) -> AsyncIterator[None]:
    """Run the Lifecycle Manager of a control plane; its log is in `folder`."""
    command = [
        str(Path(sys.executable).with_name("klm")),
        "run",
        f"--kubeconfig={kubeconfig}",
        "--kyma-skr-listener-bind-address=127.0.0.1:0",
        "--metrics-bind-address=127.0.0.1:0",
        "--health-probe-bind-address=127.0.0.1:0",
        f"--replica-bind-address=127.0.0.1:{free_port()}",
        "--replica-name=lifecycle-manager",
        f"--leader-election-namespace={names.KCP_NAMESPACE}",
        "--allow-unprotected-modules",  # it is an administrator here
        "--k8s-client-qps=100000",
        "--k8s-skr-client-qps=100000",
        "--manifest-requeue-success-interval=1h",
        "--log-level=WARNING",
    ]
    child = await start_child("lifecycle-manager", command, folder / "lifecycle-manager.log")
    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(_fail_when_it_ends(child))
        try:
            yield
        finally:
            watching.cancel()
            await child.stop()


async def _fail_when_it_ends(child: ChildProcess) -> None:
    """Raise RuntimeError when the process ends by itself."""
    code = await child.process.wait()
    raise RuntimeError(f"{child.name} ended with code {code}:\n{tail(child.log)}")


async def register(kcp: Client, skrs: Sequence[LocalCluster], modules: Sequence[str] = ()) -> None:
    """Create a Kyma with these modules for each cluster, and wait until every cluster was reached."""
    spec = {"channel": "regular", "modules": [{"name": module} for module in modules]}
    for number, skr in enumerate(skrs):
        await _create_kyma(kcp, f"kyma-{number}", skr, spec)

    def reached(kyma: Any) -> bool:
        condition = find(kyma.status.conditions, "SKRReachable")
        return condition is not None and condition.status == "True"

    await wait_for_objects(kcp, KYMAS, reached, len(skrs))


async def _create_kyma(kcp: Client, name: str, skr: LocalCluster, spec: dict[str, Any]) -> None:
    """Create a Kyma and its access Secret."""
    labels = {names.KYMA_NAME: name, names.MANAGED_BY: names.LIFECYCLE_MANAGER}
    config = base64.b64encode(skr.admin_kubeconfig.read_bytes()).decode()
    secret = {"metadata": {"name": f"kubeconfig-{name}", "labels": labels}, "data": {"config": config}}
    metadata = {"name": name, "labels": {names.RUNTIME_ID: name}}
    kyma = {"metadata": metadata, "spec": spec}
    await kcp.create(SECRETS, secret, names.KCP_NAMESPACE, field_manager="benchmark")
    await kcp.create(KYMAS, kyma, names.KCP_NAMESPACE, field_manager="benchmark")


async def wait_for_objects(kcp: Client, resource: Resource[Any], condition: Callable[[Any], bool], count: int) -> None:
    """Wait until `count` objects fulfil a condition."""
    informer: Informer[Any] = Informer(kcp, resource, namespace=names.KCP_NAMESPACE)
    done: set[str] = set()
    reached = asyncio.Event()

    def changed(change: Any) -> None:
        if change.new is not None and condition(change.new):
            done.add(resource.key_of(change.new).name)
            if len(done) >= count:
                reached.set()

    informer.on_change(changed)
    async with asyncio.timeout(TIMEOUT_SECONDS), asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(informer.run())
        await reached.wait()
        watching.cancel()
