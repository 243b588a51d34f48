"""A pytest plugin with a real API server, which pytest finds by itself where this package is installed.

With KUBE_RUNTIME_KUBECONFIG set, the cluster behind that kubeconfig is used, and no local one is started.
"""

import asyncio
import os
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

import pytest

from kyma_local.clusters import LocalClusters

START_SECONDS = 900.0  # the binaries may have to be downloaded or built first


@pytest.fixture(scope="session")
def api_server() -> Iterator[Path]:
    """The kubeconfig of an administrator of a real API server, started once for all tests."""
    with running_api_server() as kubeconfig:
        yield kubeconfig


@contextmanager
def running_api_server() -> Iterator[Path]:
    """Run an API server on the event loop of a thread of its own; yield the kubeconfig of an administrator."""
    given = os.environ.get("KUBE_RUNTIME_KUBECONFIG")
    if given:
        yield Path(given)
        return
    ready: Future[Path] = Future()
    stop = threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(_serve(ready, stop)), name="clusters")
    thread.start()
    try:
        yield ready.result(START_SECONDS)
    finally:
        stop.set()
        thread.join()


async def _serve(ready: "Future[Path]", stop: threading.Event) -> None:
    try:
        async with LocalClusters.start(skrs=0) as clusters:
            ready.set_result(clusters.kcp.admin_kubeconfig)
            await asyncio.to_thread(stop.wait)
    except BaseException as error:
        if ready.done():
            raise
        ready.set_exception(error)
