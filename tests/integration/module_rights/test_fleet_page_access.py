"""Who may see the fleet page, asked of a real API server with the rights that the chart grants."""

from pathlib import Path

import pytest

from kube_runtime import Client
from kyma_fleet_page.access import Access, AccessDecision
from lifecycle_manager.contract.resources import KYMAS, MANIFESTS
from lifecycle_manager.process.crd_installation import apply_objects
from tests.integration.module_rights.identities import KCP, identity, page_roles
from tests.kinds import SERVICE_ACCOUNTS

VIEWER = """
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: fleet-viewer, namespace: kcp-system}
rules: [{apiGroups: [operator.kyma-project.io], resources: [kymas], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: fleet-viewer, namespace: kcp-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: fleet-viewer}
subjects: [{kind: ServiceAccount, name: fleet-viewer, namespace: kcp-system}]
"""


@pytest.mark.parametrize(
    ("account", "verdict"),
    [("fleet-viewer", AccessDecision.ALLOWED), ("stranger", AccessDecision.FORBIDDEN), ("", AccessDecision.UNKNOWN)],
)
async def test_token_is_reviewed_by_the_api_server(
    admin: Client, kcp: Path, tmp_path: Path, account: str, verdict: AccessDecision
) -> None:
    await apply_objects(admin, VIEWER)
    token = "made-up"
    if account:
        document = {"metadata": {"name": account, "namespace": KCP}}
        await admin.apply(SERVICE_ACCOUNTS, account, document, KCP, field_manager="test")
        made = await admin.create_subresource(
            SERVICE_ACCOUNTS, account, KCP, "token", {"spec": {"expirationSeconds": 600}}
        )
        token = made["status"]["token"]
    async with identity(admin, kcp, tmp_path, "page", page_roles()) as lifecycle_manager:
        access = Access(lifecycle_manager, KCP)
        assert await access.of(token) is verdict
        assert await access.of(token) is verdict
        assert await access.may_list(token, KYMAS, KCP) is (verdict is AccessDecision.ALLOWED)
        assert not await access.may_list(token, KYMAS, "default")
        assert not await access.may_list(token, MANIFESTS, KCP)
