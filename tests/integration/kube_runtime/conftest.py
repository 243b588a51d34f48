"""The same tests against a real API server and a simulated one.

A module that is marked with `parametrize("kcp", BOTH_SERVERS, indirect=True)` runs twice.
"""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from kube_runtime import dump_yaml
from kube_simulation import Simulation, serve_simulation


@pytest.fixture(scope="package")
def kcp(request: pytest.FixtureRequest) -> Path:
    """The kubeconfig of an administrator of a cluster: a real one, or the simulated one where that is asked for.

    Only that one is started, and once: a fixture that depended on this one's parameter would be made anew with it.
    """
    kubeconfig: Path = request.getfixturevalue(getattr(request, "param", "real"))
    return kubeconfig


@pytest.fixture(scope="package")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of a simulated cluster, served by a thread of its own as a real server is by a process."""
    ready: Future[Simulation] = Future()
    stop = threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(_serve(ready, stop)), name="simulation")
    thread.start()
    try:
        path = tmp_path_factory.mktemp("simulated") / "kubeconfig"
        path.write_text(dump_yaml(ready.result(timeout=240).cluster("simulated").kubeconfig))
        yield path
    finally:
        stop.set()
        thread.join()


async def _serve(ready: "Future[Simulation]", stop: threading.Event) -> None:
    try:
        async with serve_simulation() as simulation:
            ready.set_result(simulation)
            await asyncio.to_thread(stop.wait)
    except BaseException as error:
        if ready.done():
            raise
        ready.set_exception(error)
