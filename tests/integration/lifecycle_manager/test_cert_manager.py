"""The whole product with certificates of cert-manager, and only the rights of the Lifecycle Manager's roles."""

import base64
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from kyma_certs import issued_by
from kyma_demo.environment import Environment
from kyma_demo.walkthrough import Walkthrough
from lifecycle_manager.contract.resources import SECRETS, Secret
from lifecycle_manager.process.crd_installation import apply_objects
from lifecycle_manager.watcher_certificates.ca_store import ROTATE
from lifecycle_manager.watcher_certificates.cert_manager import CERTIFICATES, ISSUERS
from lifecycle_manager_api import names
from tests.integration.cert_manager import RIGHTS, fetch_crds, find_controller, run_controller, simulate_controller
from tests.integration.lifecycle_manager.event_path import changes_are_reported, is_watcher_ready, kubelet
from tests.integration.lifecycle_manager.programs import Manager, manager_with
from tests.waiting import eventually

KCP = names.KCP_NAMESPACE
CA_SECRET, LEAF = "klm-watcher", "demo-webhook-tls"
ISSUED = 'lifecycle_mgr_watcher_certificates_issued_total{issuer="cert-manager.io/v1"}'


@pytest_asyncio.fixture(params=["simulated", "real"], scope="module", loop_scope="session")
async def manager_with_cert_manager(
    request: pytest.FixtureRequest, walkthrough: Walkthrough, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Manager]:
    environment, folder = walkthrough.environment, tmp_path_factory.mktemp("cert-manager")
    program: Path | None = find_controller(folder) if request.param == "real" else None
    await apply_objects(environment.kcp, fetch_crds(folder))
    await apply_objects(environment.kcp, RIGHTS)
    at_work = (
        simulate_controller(environment.kcp)
        if program is None
        else run_controller(program, environment.kcp_kubeconfig, folder / "cert-manager.log")
    )
    async with at_work, kubelet(environment):
        async with manager_with(walkthrough.programs, "--cert-management=cert-manager.io/v1") as manager:
            await eventually(lambda: certificate_is_requested(environment))
            await eventually(lambda: is_watcher_ready(environment))
            yield manager
        await environment.kcp.delete(CERTIFICATES, LEAF, KCP)
        await environment.kcp.delete(ISSUERS, "klm-watcher-selfsigned", KCP)
        await eventually(lambda: is_watcher_ready(environment))


async def test_certificates_of_cert_manager_are_issued_again_after_a_rotation(
    walkthrough: Walkthrough, manager_with_cert_manager: Manager
) -> None:
    environment, manager = walkthrough.environment, manager_with_cert_manager
    former = await environment.kcp.get(SECRETS, CA_SECRET, KCP)
    patch = {"metadata": {"annotations": {ROTATE: "now"}}}
    await environment.kcp.merge_patch(SECRETS, CA_SECRET, patch, KCP)

    async def rotated() -> Secret | None:
        now = await environment.kcp.get(SECRETS, CA_SECRET, KCP)
        over = now.data["tls.crt"] != former.data["tls.crt"] and "former.crt" not in now.data
        return now if over else None

    ca = base64.b64decode((await eventually(rotated, within=240)).data["tls.crt"])
    leaf = await environment.kcp.get(SECRETS, LEAF, KCP)
    assert issued_by(base64.b64decode(leaf.data["tls.crt"]), ca)
    assert await manager.sample(ISSUED) == 1, "one new certificate was requested"

    async def is_in_cluster() -> bool:
        in_cluster = await environment.skr.get(SECRETS, "skr-webhook-tls", names.SKR_NAMESPACE)
        return in_cluster.data["tls.crt"] == leaf.data["tls.crt"]

    await eventually(is_in_cluster)
    await eventually(lambda: is_watcher_ready(environment))
    await changes_are_reported(walkthrough, 880)


async def certificate_is_requested(environment: Environment) -> bool:
    """Return whether the Lifecycle Manager has requested the certificate of the demo's Watcher from cert-manager."""
    certificates = await environment.kcp.list(CERTIFICATES, KCP)
    return [each["spec"]["secretName"] for each in certificates.items] == [LEAF]
