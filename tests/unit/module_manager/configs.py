"""A ModuleConfig with a Module CR in it, and the SyncResource that belongs to it."""

from typing import Any

from kube_runtime import ObjectKey
from lifecycle_manager_api import ModuleConfig, SyncResource, names
from tests import builders

KEY = ObjectKey("kcp-system", "kyma-one-cloud-resources")
NOW = builders.NOW
LABELS = {names.KYMA_NAME: "kyma-one", names.MODULE_NAME: "cloud-resources"}
TRACE = {
    names.TRACEPARENT: "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01",
    names.OBSERVED_AT: "2026-11-01T11:59:59.990000Z",
}
MODULE_CR = """
apiVersion: cloud-resources.kyma-project.io/v1beta1
kind: Infrastructure
metadata:
  name: default
  namespace: kyma-system
spec:
  nfsVolumes:
    - name: media
      server: 10.250.0.10
      path: /exports/media
"""


def make_config(resource: str = MODULE_CR, *, deleting: bool = False, **given: Any) -> ModuleConfig:
    metadata = {"uid": "config-uid", "labels": LABELS, "annotations": TRACE, **_deletion(deleting=deleting), **given}
    return builders.module_config(KEY.name, kyma="kyma-one", spec={"resource": resource}, **metadata)


def make_sync_resource(
    text: str = "", *, owner: str = "config-uid", deleting: bool = False, **given: Any
) -> SyncResource:
    reference = {"apiVersion": "operator.kyma-project.io/v1alpha1", "kind": "ModuleConfig", "name": KEY.name}
    owners = [{**reference, "uid": owner, "controller": True, "blockOwnerDeletion": True}]
    metadata = {"labels": LABELS, "ownerReferences": owners, **_deletion(deleting=deleting), **given}
    return builders.sync_resource(KEY.name, text=text, kyma="kyma-one", **metadata)


def _deletion(*, deleting: bool) -> dict[str, str]:
    return {"deletionTimestamp": builders.TIME} if deleting else {}
