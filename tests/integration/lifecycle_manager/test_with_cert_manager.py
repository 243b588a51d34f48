"""The whole product with certificates from cert-manager, under the least rights that the Lifecycle Manager has."""

import base64
from collections.abc import AsyncIterator
from importlib.resources import files
from pathlib import Path

import pytest
import pytest_asyncio

from kyma_certs import issued_by
from kyma_demo.stage import Stage
from kyma_demo.story import Story
from lifecycle_manager.crd_installation import apply_objects
from lifecycle_manager.resources import SECRETS, Secret
from lifecycle_manager.skr_webhook import ROTATE
from lifecycle_manager.skr_webhook.cert_manager import CERTIFICATES, ISSUERS
from lifecycle_manager_api import names
from tests.integration.cert_manager import controller_at_work, fetch_crds, find_controller, issuer_at_work
from tests.integration.lifecycle_manager.programs import Manager, manager_with
from tests.integration.lifecycle_manager.watching import changes_are_told, is_well, kubelet
from tests.waiting import eventually

KCP = names.KCP_NAMESPACE
CA_SECRET, LEAF = "klm-watcher", "demo-webhook-tls"
ISSUED = 'lifecycle_mgr_watcher_certificates_issued_total{issuer="cert-manager.io/v1"}'
RIGHTS = f"""{files("lifecycle_manager.rbac").joinpath("kcp-cert-manager.yaml").read_text()}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: lifecycle-manager-cert-manager, namespace: kcp-system}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: lifecycle-manager-cert-manager}}
subjects: [{{kind: ServiceAccount, name: lifecycle-manager, namespace: kcp-system}}]
"""


@pytest_asyncio.fixture(params=["played", "real"], scope="module", loop_scope="session")
async def manager_beside_cert_manager(
    request: pytest.FixtureRequest, story: Story, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Manager]:
    stage, folder = story.stage, tmp_path_factory.mktemp("cert-manager")
    program: Path | None = find_controller(folder) if request.param == "real" else None
    await apply_objects(stage.kcp, fetch_crds(folder))
    await apply_objects(stage.kcp, RIGHTS)
    at_work = (
        issuer_at_work(stage.kcp)
        if program is None
        else controller_at_work(program, stage.kcp_kubeconfig, folder / "cert-manager.log")
    )
    async with at_work, kubelet(stage):
        async with manager_with(story.cast, "--cert-management=cert-manager.io/v1") as manager:
            await eventually(lambda: wants_a_certificate(stage))
            await eventually(lambda: is_well(stage))
            yield manager
        await stage.kcp.delete(CERTIFICATES, LEAF, KCP)
        await stage.kcp.delete(ISSUERS, "klm-watcher-selfsigned", KCP)
        await eventually(lambda: is_well(stage))


async def test_certificates_are_cert_managers_and_a_rotation_has_them_issued_anew(
    story: Story, manager_beside_cert_manager: Manager
) -> None:
    stage, manager = story.stage, manager_beside_cert_manager
    former = await stage.kcp.get(SECRETS, CA_SECRET, KCP)
    patch = {"metadata": {"annotations": {ROTATE: "now"}}}
    await stage.kcp.merge_patch(SECRETS, CA_SECRET, patch, KCP)

    async def rotated() -> Secret | None:
        now = await stage.kcp.get(SECRETS, CA_SECRET, KCP)
        over = now.data["tls.crt"] != former.data["tls.crt"] and "former.crt" not in now.data
        return now if over else None

    ca = base64.b64decode((await eventually(rotated, within=240)).data["tls.crt"])
    leaf = await stage.kcp.get(SECRETS, LEAF, KCP)
    assert issued_by(base64.b64decode(leaf.data["tls.crt"]), ca)
    assert await manager.sample(ISSUED) == 1, "it was told once to issue it anew"

    async def is_in_cluster() -> bool:
        in_cluster = await stage.skr.get(SECRETS, "skr-webhook-tls", names.SKR_NAMESPACE)
        return in_cluster.data["tls.crt"] == leaf.data["tls.crt"]

    await eventually(is_in_cluster)
    await eventually(lambda: is_well(stage))
    await changes_are_told(story, 880)


async def wants_a_certificate(stage: Stage) -> bool:
    """Tell whether the Lifecycle Manager has asked cert-manager for the certificate of the demo's Watcher."""
    certificates = await stage.kcp.list(CERTIFICATES, KCP)
    return [each["spec"]["secretName"] for each in certificates.items] == [LEAF]
