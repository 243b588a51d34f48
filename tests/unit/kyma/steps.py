"""What a reconcile of a Kyma does, step by step, as tests record it; the steps of a deletion are those of its plan."""

from collections.abc import Mapping
from dataclasses import dataclass

from kube_runtime import Step
from lifecycle_manager.kyma.deletion.plan import (
    ChangeModules,
    DeleteKyma,
    DeletePullSecret,
    PurgeFinalizers,
    ReadSkr,
    RemoveCrd,
    RemoveKymaFinalizer,
    SkrStep,
    WriteSkrStatus,
)
from lifecycle_manager.kyma.wanted import (
    ApplyManifest,
    DeleteManifest,
    DeleteSyncResource,
    MarkUnmanaged,
    ModuleChange,
    UpdateTerminatingManifest,
)
from lifecycle_manager_api import KymaSpec

__all__ = [
    "AddFinalizer",
    "ApplyManifest",
    "ChangeModules",
    "CreateKyma",
    "DeleteKyma",
    "DeleteManifest",
    "DeletePullSecret",
    "DeleteSyncResource",
    "InstallCrd",
    "MarkUnmanaged",
    "ModuleChange",
    "PurgeFinalizers",
    "ReadSkr",
    "RemoveCrd",
    "RemoveKymaFinalizer",
    "RemoveSkrFinalizer",
    "SkrStep",
    "SyncMetadata",
    "SyncPullSecret",
    "UpdateTerminatingManifest",
    "WriteSkrStatus",
]


@dataclass(frozen=True, slots=True)
class AddFinalizer(Step):
    pass


@dataclass(frozen=True, slots=True)
class InstallCrd(SkrStep):
    pass


@dataclass(frozen=True, slots=True)
class CreateKyma(SkrStep):
    spec: KymaSpec
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    is_replaced: bool = False


@dataclass(frozen=True, slots=True)
class SyncPullSecret(SkrStep):
    pass


@dataclass(frozen=True, slots=True)
class RemoveSkrFinalizer(SkrStep):
    pass


@dataclass(frozen=True, slots=True)
class SyncMetadata(SkrStep):
    labels: Mapping[str, str | None]
    annotations: Mapping[str, str]
