"""A ModuleConfig with a Module CR in it, and the SyncResource that belongs to it."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from kube_runtime import ObjectKey
from lifecycle_manager_api import ModuleConfig, SyncResource

# Otherwise asyncio opens an event loop in the first test that runs one, and does not close it.
asyncio.set_event_loop(None)

KEY = ObjectKey("kcp-system", "kyma-one-cloud-resources")
NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
LABELS = {
    "operator.kyma-project.io/kyma-name": "kyma-one",
    "operator.kyma-project.io/module-name": "cloud-resources",
}
TRACE = {
    "operator.kyma-project.io/traceparent": "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01",
    "operator.kyma-project.io/observed-at": "2026-11-21T11:59:59.990000Z",
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

MakeConfig = Callable[..., ModuleConfig]
MakeSyncResource = Callable[..., SyncResource]


@pytest.fixture
def key() -> ObjectKey:
    return KEY


@pytest.fixture
def now() -> datetime:
    return NOW


@pytest.fixture
def make_config() -> MakeConfig:
    def make(
        resource: str = MODULE_CR,
        *,
        generation: int = 1,
        version: str = "100",
        deleting: bool = False,
        status: Mapping[str, Any] | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> ModuleConfig:
        metadata: dict[str, Any] = {
            "name": KEY.name,
            "namespace": KEY.namespace,
            "uid": "config-uid",
            "generation": generation,
            "resourceVersion": version,
            "labels": LABELS,
            "annotations": TRACE if annotations is None else annotations,
        }
        if deleting:
            metadata["deletionTimestamp"] = "2026-11-21T12:00:00Z"
        return msgspec.convert(
            {
                "apiVersion": "operator.kyma-project.io/v1alpha1",
                "kind": "ModuleConfig",
                "metadata": metadata,
                "spec": {"kyma": "kyma-one", "module": "cloud-resources", "resource": resource},
                "status": dict(status or {}),
            },
            ModuleConfig,
        )

    return make


@pytest.fixture
def make_sync_resource() -> MakeSyncResource:
    def make(
        text: str = "",
        *,
        owner: str = "config-uid",
        uid: str = "sync-uid",
        generation: int = 1,
        version: str = "200",
        deleting: bool = False,
        labels: Mapping[str, str] | None = None,
        status: Mapping[str, Any] | None = None,
    ) -> SyncResource:
        metadata: dict[str, Any] = {
            "name": KEY.name,
            "namespace": KEY.namespace,
            "uid": uid,
            "generation": generation,
            "resourceVersion": version,
            "labels": LABELS if labels is None else labels,
            "ownerReferences": [
                {
                    "apiVersion": "operator.kyma-project.io/v1alpha1",
                    "kind": "ModuleConfig",
                    "name": KEY.name,
                    "uid": owner,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        }
        if deleting:
            metadata["deletionTimestamp"] = "2026-11-21T12:00:00Z"
        return msgspec.convert(
            {
                "apiVersion": "operator.kyma-project.io/v1alpha1",
                "kind": "SyncResource",
                "metadata": metadata,
                "spec": {"kyma": "kyma-one", "module": "cloud-resources", "resource": text},
                "status": dict(status or {}),
            },
            SyncResource,
        )

    return make
