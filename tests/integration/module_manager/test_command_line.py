"""`kyma-module-manager` as a process of its own, as it runs in a Pod."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen
from uuid import uuid4

import pytest

from kube_runtime import Client, NotFound
from kyma_module_manager.samples import sample_file
from kyma_module_manager.samples.cloud_resources import objects
from kyma_module_manager.testing import ManagerHarness
from kyma_module_manager.testing.plugin import ControlPlane
from kyma_module_manager.writer import SYNC_RESOURCES
from lifecycle_manager_api import State, names
from tests.waiting import eventually

PROGRAM = str(Path(sys.executable).with_name("kyma-module-manager"))
TARGET = "kyma_module_manager.samples.cloud_resources:objects"
EXAMPLE = sample_file("cloud_resources", "example.yaml").read_text()


@pytest.fixture
async def harness(control_plane: ControlPlane) -> AsyncIterator[ManagerHarness]:
    """The test's own hands on the control plane; the manager is the process that the test starts."""
    async with (
        await Client.from_kubeconfig(control_plane.admin_kubeconfig) as client,
        ManagerHarness.open(client, objects, f"kyma-{uuid4().hex[:8]}") as harness,
    ):
        await harness.write_module_cr(EXAMPLE)
        yield harness
        await harness.delete_module_cr()


async def test_once_writes_what_is_to_be_written_and_ends(harness: ManagerHarness, control_plane: ControlPlane) -> None:
    code, _, errors = await _run(control_plane, "--once")

    assert code == 0, errors
    assert "PersistentVolume" in (await harness.sync_resource()).spec.resource
    await harness.module_config(lambda each: each.status.state == State.PROCESSING)


async def test_once_ends_with_a_failure_where_one_failed(harness: ManagerHarness, control_plane: ControlPlane) -> None:
    await harness.write_module_cr(EXAMPLE.replace("10.100.0.0/16", "0.0.0.0/0"))

    code, _, errors = await _run(control_plane, "--once")

    assert code == 1
    assert f"failed: {harness.name}" in errors


async def test_dry_run_prints_and_writes_nothing(harness: ManagerHarness, control_plane: ControlPlane) -> None:
    code, printed, errors = await _run(control_plane, "--once", "--dry-run")

    assert code == 0, errors
    assert "kind: SyncResource" in printed
    assert f"name: {harness.name}" in printed
    with pytest.raises(NotFound):
        await harness.client.get(SYNC_RESOURCES, harness.name, names.KCP_NAMESPACE)
    assert (await harness.module_config()).status.state == State.EMPTY


async def test_process_follows_changes_answers_its_port_and_stops_on_sigterm(
    harness: ManagerHarness, control_plane: ControlPlane
) -> None:
    async with _manager(control_plane) as (process, log):
        await harness.sync_resource()
        port = (await eventually(lambda: log.record("watching")))["health_port"]
        health = await asyncio.to_thread(_get, port, "healthz")
        ready = await asyncio.to_thread(_get, port, "readyz")
        metrics = await asyncio.to_thread(_get, port, "metrics")
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(60):
            assert await process.wait() == 0

    written = log.record("sync resource written")
    assert written is not None
    assert (health, ready) == ("ok\n", "ok\n")
    assert 'module_manager_sync_resources_written_total{module="cloud-resources"}' in metrics
    assert (written["module"], written["level"]) == ("cloud-resources", "info")
    assert written["milliseconds"] > 0
    assert written["time"].endswith("Z")


async def test_kubeconfig_that_is_not_there_is_a_clear_error(tmp_path: Path) -> None:
    process = await _start("run", TARGET, "--kubeconfig", str(tmp_path / "missing"), "--once")
    _, errors = await process.communicate()

    assert process.returncode == 2
    assert "missing" in errors.decode()
    assert "Traceback" not in errors.decode()


class Log:
    """The lines that a process has written so far."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    async def follow(self, stream: asyncio.StreamReader) -> None:
        """Read until the process closes the stream."""
        async for line in stream:
            self.lines.append(json.loads(line))

    def record(self, message: str) -> dict[str, Any] | None:
        """Return the first line with a message, None while there is none."""
        return next((line for line in self.lines if line["msg"] == message), None)


@asynccontextmanager
async def _manager(control_plane: ControlPlane) -> AsyncIterator[tuple[asyncio.subprocess.Process, Log]]:
    process = await _start(
        "run", TARGET, "--kubeconfig", str(control_plane.manager_kubeconfig), "--health-address", "127.0.0.1:0"
    )
    assert process.stderr is not None
    log = Log()
    async with asyncio.TaskGroup() as group:
        group.create_task(log.follow(process.stderr))
        try:
            yield process, log
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


async def _run(control_plane: ControlPlane, *options: str) -> tuple[int | None, str, str]:
    process = await _start("run", TARGET, "--kubeconfig", str(control_plane.manager_kubeconfig), *options)
    async with asyncio.timeout(120):
        printed, errors = await process.communicate()
    return process.returncode, printed.decode(), errors.decode()


async def _start(*arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        PROGRAM,
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "200"},
    )


def _get(port: int, path: str) -> str:
    with urlopen(f"http://127.0.0.1:{port}/{path}", timeout=60) as answer:
        return str(answer.read().decode())
