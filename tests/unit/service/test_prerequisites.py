"""`klm run` in a control plane where nothing is installed: one line says what is missing and what to do."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from kube_runtime import Client, KubeconfigPolicy
from kube_simulation import SimulatedCluster, serve_simulation
from kyma_local.ports import free_port
from lifecycle_manager.process.prerequisites import NotInstalled, require_installed
from lifecycle_manager_api import crds
from tests.klm import KLM


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[SimulatedCluster]:
    async with serve_simulation() as simulation:
        yield simulation.cluster("kcp")


async def run_in(cluster: SimulatedCluster, folder: Path) -> tuple[int | None, list[str]]:
    """Run `klm run` in a cluster; return its exit code and what it printed, without its log."""
    kubeconfig = folder / "kcp.yaml"
    kubeconfig.write_bytes(msgspec.json.encode(cluster.kubeconfig))
    ports = [
        f"--{name}=127.0.0.1:{free_port()}"
        for name in (
            "metrics-bind-address",
            "health-probe-bind-address",
            "kyma-skr-listener-bind-address",
            "replica-bind-address",
        )
    ]
    process = await asyncio.create_subprocess_exec(
        KLM,
        "run",
        f"--kubeconfig={kubeconfig}",
        "--log-format=json",
        *ports,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    printed = (await process.communicate())[0].decode()
    return process.returncode, [line for line in printed.splitlines() if not line.startswith('{"')]


async def test_an_empty_control_plane_is_one_line_that_says_what_to_do(
    cluster: SimulatedCluster, tmp_path: Path
) -> None:
    code, (line,) = await run_in(cluster, tmp_path)
    assert code == 2
    for expected in (
        "namespace kcp-system, namespace kcp-system-leases, CRD ",
        "more",
        "chart lifecycle-manager",
        "klm crds --kubeconfig",
        "klm playground",
    ):
        assert expected in line


async def test_a_control_plane_without_one_namespace_or_without_crds_is_named(cluster: SimulatedCluster) -> None:
    cluster.answer_to("POST", "/api/v1/namespaces", {"metadata": {"name": "kcp-system"}})
    async with await Client.from_kubeconfig(cluster.kubeconfig, policy=KubeconfigPolicy(allow_insecure=True)) as kcp:
        with pytest.raises(NotInstalled, match=" has no CRD "):
            await require_installed(kcp, ("kcp-system", "kcp-system"))
        cluster.create(*crds.all_crds())
    async with await Client.from_kubeconfig(cluster.kubeconfig, policy=KubeconfigPolicy(allow_insecure=True)) as kcp:
        with pytest.raises(NotInstalled, match="has no namespace kcp-system-leases: install"):
            await require_installed(kcp, ("kcp-system", "kcp-system-leases"))
