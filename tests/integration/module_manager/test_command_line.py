"""`kyma-module-manager` as a process, as it runs in a Pod."""

import asyncio
import json
import os
import re
import signal
import socket
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
    """Access of the test to the control plane; the test starts the manager as a process."""
    async with (
        await Client.from_kubeconfig(control_plane.admin_kubeconfig) as client,
        ManagerHarness.open(client, objects, f"kyma-{uuid4().hex[:8]}") as harness,
    ):
        await harness.write_module_cr(EXAMPLE)
        yield harness
        await harness.delete_module_cr()


async def test_once_reconciles_every_module_config_and_exits(
    harness: ManagerHarness, control_plane: ControlPlane
) -> None:
    code, _, errors = await _run(control_plane, "--once")

    assert code == 0, errors
    assert "PersistentVolume" in (await harness.sync_resource()).spec.resource
    await harness.module_config(lambda each: each.status.state == State.PROCESSING)


async def test_once_exits_with_an_error_if_a_module_config_failed(
    harness: ManagerHarness, control_plane: ControlPlane
) -> None:
    await harness.write_module_cr(EXAMPLE.replace("10.100.0.0/16", "0.0.0.0/0"))

    code, _, errors = await _run(control_plane, "--once")

    assert code == 1
    assert f"failed: {harness.name}" in errors


async def test_dry_run_says_why_the_function_failed(
    harness: ManagerHarness, control_plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = (
        "from kyma_module_manager import module_manager",
        "@module_manager('cloud-resources', crd=dict)",
        "def objects(cr):",
        "    return cr['speck']",
    )
    (tmp_path / "mistaken.py").write_text("\n".join(lines))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    code, _, errors = await _run(control_plane, "--once", "--dry-run", target="mistaken:objects")

    assert code == 1
    failed = [json.loads(line) for line in errors.splitlines() if line.startswith("{")]
    (logged,) = [each for each in failed if each["name"] == harness.name]
    assert (logged["reason"], logged["error"]) == ("RenderingFailed", "KeyError: 'speck'")
    assert "mistaken.py" in logged["exception"]


async def test_dry_run_prints_and_does_not_write(harness: ManagerHarness, control_plane: ControlPlane) -> None:
    code, printed, errors = await _run(control_plane, "--once", "--dry-run")

    assert code == 0, errors
    assert "kind: SyncResource" in printed
    assert f"name: {harness.name}" in printed
    with pytest.raises(NotFound):
        await harness.client.get(SYNC_RESOURCES, harness.name, names.KCP_NAMESPACE)
    assert (await harness.module_config()).status.state == State.EMPTY
    assert re.search(r"^# \d+ ModuleConfigs?: would write \d+ documents$", printed, re.MULTILINE)


async def test_dry_run_says_that_nothing_differs(harness: ManagerHarness, control_plane: ControlPlane) -> None:
    async def nothing_differs() -> bool:
        await _run(control_plane, "--once")
        _, printed, _ = await _run(control_plane, "--once", "--dry-run")
        return re.fullmatch(r"# \d+ ModuleConfigs?: would write nothing\n", printed) is not None

    await eventually(nothing_differs, within=60)


async def test_process_reconciles_changes_serves_probes_and_stops_on_sigterm(
    harness: ManagerHarness, control_plane: ControlPlane
) -> None:
    async with _manager(control_plane) as (process, log):
        await harness.sync_resource()
        await harness.write_module_cr(EXAMPLE.replace("10.100.0.0/16", "10.101.0.0/16"))
        await harness.sync_resource(lambda each: "10.101.0.0/16" in each.spec.resource)
        (watching,) = await eventually(lambda: log.records("watching"))
        port = watching["health_port"]
        health = await asyncio.to_thread(_get, port, "healthz")
        ready = await asyncio.to_thread(_get, port, "readyz")
        metrics = await asyncio.to_thread(_get, port, "metrics")
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(60):
            assert await process.wait() == 0

    first, written = log.records("sync resource written")
    assert first["milliseconds"] is None  # it existed before the manager started
    assert (health, ready) == ("ok\n", "ok\n")
    assert 'module_manager_sync_resources_written_total{module="cloud-resources"}' in metrics
    assert (written["module"], written["level"]) == ("cloud-resources", "info")
    assert written["milliseconds"] > 0
    assert written["time"].endswith("Z")


async def test_missing_kubeconfig_is_named_in_the_error(tmp_path: Path) -> None:
    process = await _start("run", TARGET, "--kubeconfig", str(tmp_path / "missing"), "--once")
    _, errors = await process.communicate()

    assert process.returncode == 2
    assert "missing" in errors.decode()
    assert "Traceback" not in errors.decode()


async def test_busy_port_is_one_line_with_its_address(control_plane: ControlPlane) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        code, _, errors = await _run(control_plane, "--health-address", address)

    assert code == 2
    assert errors == f"error: probes and metrics can't be served at {address}: Address already in use\n"


class Log:
    """The lines that a process has written so far."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    async def follow(self, stream: asyncio.StreamReader) -> None:
        """Read until the process closes the stream."""
        async for line in stream:
            self.lines.append(json.loads(line))

    def records(self, message: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["msg"] == message]


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


async def _run(control_plane: ControlPlane, *options: str, target: str = TARGET) -> tuple[int | None, str, str]:
    process = await _start("run", target, "--kubeconfig", str(control_plane.manager_kubeconfig), *options)
    async with asyncio.timeout(120):
        printed, errors = await process.communicate()
    return process.returncode, printed.decode(), errors.decode()


async def test_error_on_a_terminal_has_no_escape_sequence() -> None:
    ours, theirs = os.openpty()
    with os.fdopen(ours, "rb") as terminal, os.fdopen(theirs):
        process = await asyncio.create_subprocess_exec(PROGRAM, "run", "nothing:at_all", stderr=theirs)
        assert await process.wait() == 2
        shown = await asyncio.to_thread(os.read, terminal.fileno(), 4096)
    assert shown.startswith(b"error: ")
    assert b"\x1b" not in shown


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
