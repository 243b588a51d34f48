"""One control plane and one user cluster for all scenarios; Lifecycle Manager and Watcher are processes."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
import pytest_asyncio

from kube_runtime import load_yaml
from kyma_demo import processes
from kyma_demo.environment import Environment, open_environment, prepare_kcp
from kyma_demo.programs import Programs
from kyma_local.ports import free_port
from lifecycle_manager.contract.resources import SECRETS
from lifecycle_manager_api import State
from tests.e2e.upstream.link import Link
from tests.e2e.upstream.product import KCP, PULL_SECRET, Product
from tests.e2e.upstream.runtime import Runtime
from tests.integration.lifecycle_manager.programs import MANAGER, Manager, with_options
from tests.registries import blob_server

OPTIONS = (
    "--kyma-metrics",
    f"--skr-image-pull-secret={PULL_SECRET}",
    "--restricted-default-modules=deployer,restricted,restricted-installed",
    "--module-upgrade-rollout-max-delay=0s",
    "--access-secret-grace=1s",
    "--manifest-requeue-busy-interval=0.1s",
    "--manifest-requeue-success-interval=5s",
    "--kyma-requeue-success-interval=5s",
    "--kyma-requeue-busy-interval=0.2s",
    "--watcher-silence=12s",
    "--failure-max-delay=0.5s",
    "--skr-unreachable-grace=0s",
    "--self-signed-ca-rotation-grace=2s",  # until the Watcher has read its files again
    "--leader-election-lease-duration=15s",
)
START_SECONDS = 90.0
"""Programs that start for the first time are compiled."""
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def maintenance_policy(today: int) -> dict[str, Any]:
    """Return a policy by which a window is open in Asia at any time, and elsewhere on none of the next two days.

    A window counts until 20 minutes before its end, so one that begins at noon is open where the other is about to end.
    """

    def window(hour: int, *days: str) -> dict[str, Any]:
        return {"days": days, "begin": f"{hour:02}:00:00+00:00", "end": f"{hour:02}:00:00+00:00"}

    always = [window(hour, *DAYS) for hour in (0, 12)]
    return {"rules": [{"match": {"region": "asia"}, "windows": always}], "default": window(0, DAYS[(today + 3) % 7])}


def pytest_itemcollected(item: pytest.Item) -> None:
    """Run these tests in one event loop and one worker: they share the clusters."""
    item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
    item.add_marker(pytest.mark.xdist_group("upstream"))


@pytest.fixture(scope="package")
def heartbeats() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as variables:
        variables.setenv("HEARTBEAT_SECONDS", "6")  # as the Watcher's Deployment has it by OPTIONS
        yield


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def world(tmp_path_factory: pytest.TempPathFactory, heartbeats: None) -> AsyncIterator[Product]:
    folder = tmp_path_factory.mktemp("upstream")
    async with open_environment(folder, None, None) as environment, AsyncExitStack() as stack, blob_server() as layers:
        programs = Programs(environment, stack)
        programs.manager_kubeconfig, _ = await prepare_kcp(environment)
        server = urlsplit(load_yaml(environment.skr_kubeconfig.read_text())["clusters"][0]["cluster"]["server"])
        assert server.port is not None
        link = Link(server.port)
        await stack.enter_async_context(link.serving())
        manager = await _start(environment, programs)
        runtime = Runtime(environment.skr, folder / "skr-webhook-tls")
        world = Product(environment, programs, layers, link, runtime, manager)
        secret = {"metadata": {"name": PULL_SECRET}, "data": {".dockerconfigjson": "e30="}}
        await world.kcp.create(SECRETS, secret, KCP, field_manager="operator")
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(runtime.run())
            await world.write_kyma()
            await programs.start_watcher()
            await world.kyma_is(State.READY, within=START_SECONDS)
            yield world
            while not running.done():  # a request whose time is up at this moment may take the cancellation for its own
                running.cancel()
                await asyncio.wait((running,), timeout=1)


async def _start(environment: Environment, programs: Programs) -> Manager:
    port, policy = free_port(), environment.directory / "policy.json"
    policy.write_bytes(msgspec.json.encode(maintenance_policy(datetime.now(UTC).weekday())))
    program = processes.lifecycle_manager(programs.manager_kubeconfig, programs.event_port, by_interval=False)
    metrics = f"--metrics-bind-address=127.0.0.1:{port}"
    await programs.start(with_options(program, metrics, f"--maintenance-policy={policy}", *OPTIONS))
    return Manager(programs.running[MANAGER], port)
