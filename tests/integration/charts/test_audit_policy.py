"""The audit policy of the documents, in a real API server: who wrote what is kept, and no content of a Secret."""

from pathlib import Path
from typing import Any

import msgspec

from kube_runtime import Client
from kyma_local.clusters import LocalClusters
from lifecycle_manager.contract.resources import KYMAS, SYNC_RESOURCES
from lifecycle_manager.process.crd_installation import apply_crds
from lifecycle_manager_api import names
from tests.kinds import NAMESPACES, SECRETS
from tests.waiting import eventually

POLICY = Path("docs/audit-policy.yaml").absolute()
HIDDEN = "bm90IGZvciBhIGxvZw=="


async def test_audit_log_has_who_wrote_what_and_no_content_of_secrets(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    namespace = names.KCP_NAMESPACE
    flags = (f"--audit-policy-file={POLICY}", f"--audit-log-path={log}", "--audit-log-mode=blocking")
    async with LocalClusters.start(skrs=0, flags=flags) as clusters:
        async with await Client.from_environment(clusters.kcp.admin_kubeconfig) as client:
            await apply_crds(client)
            await client.create(NAMESPACES, {"metadata": {"name": namespace}}, field_manager="test")
            secret = {"metadata": {"name": "access"}, "data": {"config": HIDDEN}}
            await client.create(SECRETS, secret, namespace, field_manager="test")
            written = {
                "metadata": {"name": "one"},
                "spec": {"kyma": "one", "module": "one", "resource": f"text: {HIDDEN}"},
            }
            await client.create(SYNC_RESOURCES, written, namespace, field_manager="test", dry_run=True)
            kyma = {"metadata": {"name": "one"}, "spec": {"channel": "regular"}}
            await client.create(KYMAS, kyma, namespace, field_manager="test")
            await client.list(KYMAS, namespace)

        def entries() -> dict[tuple[str, str], Any]:
            whole = log.read_text().rpartition("\n")[0]  # the rest is a line that is still being written
            found = [msgspec.json.decode(line) for line in whole.splitlines()]
            return {
                (each["verb"], each["objectRef"]["resource"]): each
                for each in found
                if each.get("objectRef", {}).get("namespace") == namespace
            }

        of_kyma = await eventually(lambda: entries().get(("create", "kymas")))
        assert of_kyma["requestObject"]["spec"] == {"channel": "regular"}
        assert of_kyma["user"]["username"]
        assert "requestObject" not in entries()["create", "secrets"]
        assert ("list", "kymas") not in entries()
        assert HIDDEN not in log.read_text()
