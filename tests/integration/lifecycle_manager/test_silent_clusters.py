"""A cluster that accepts connections and never answers is reported by its Kyma, and delays no other cluster."""

import base64
from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio

from kube_runtime import dump_yaml, load_yaml
from kyma_demo.walkthrough import Walkthrough
from lifecycle_manager.contract.resources import KYMAS, SECRETS
from lifecycle_manager.process.crd_installation import apply_objects
from lifecycle_manager_api import State, find, names
from tests.integration.lifecycle_manager.unresponsive_server import UnresponsiveServer
from tests.waiting import eventually, is_gone

KCP = names.KCP_NAMESPACE
KYMA = "unresponsive"


@pytest_asyncio.fixture(loop_scope="session")
async def unresponsive(walkthrough: Walkthrough) -> AsyncIterator[UnresponsiveServer]:
    """A Kyma whose cluster accepts connections and never answers."""
    kubeconfig: Any = load_yaml(walkthrough.programs.skr_access)
    cluster = kubeconfig["clusters"][0]["cluster"]
    host, _, port = cluster["server"].rpartition("//")[2].partition(":")
    server = UnresponsiveServer((host, int(port)))
    async with server.open():
        cluster["server"] = f"https://127.0.0.1:{server.port}"
        labels = {names.KYMA_NAME: KYMA, names.MANAGED_BY: names.LIFECYCLE_MANAGER}
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": f"kubeconfig-{KYMA}", "namespace": KCP, "labels": labels},
            "data": {"config": base64.b64encode(dump_yaml(kubeconfig).encode()).decode()},
        }
        kyma = {
            "apiVersion": KYMAS.api_version,
            "kind": "Kyma",
            "metadata": {"name": KYMA, "namespace": KCP, "labels": {names.RUNTIME_ID: "silent-runtime"}},
            "spec": {"channel": "regular"},
        }
        await apply_objects(walkthrough.environment.kcp, dump_yaml(secret) + "\n---\n" + dump_yaml(kyma))
        yield server


async def test_unresponsive_cluster_is_reported_and_delays_no_other_cluster(
    walkthrough: Walkthrough, unresponsive: UnresponsiveServer
) -> None:
    kcp = walkthrough.environment.kcp

    async def is_reported() -> bool:
        kyma = await kcp.get(KYMAS, KYMA, KCP)
        reachable = find(kyma.status.conditions, "SKRReachable")
        return kyma.status.state is State.ERROR and reachable is not None and reachable.reason == "ClusterUnreachable"

    await eventually(is_reported, within=120)
    for round_ in range(5):
        await walkthrough.change_volume(f"73{round_}Gi")
    assert unresponsive.connections < 20

    await kcp.delete(KYMAS, KYMA, KCP)
    await kcp.delete(SECRETS, f"kubeconfig-{KYMA}", KCP)
    await eventually(lambda: is_gone(kcp.get(KYMAS, KYMA, KCP)))
