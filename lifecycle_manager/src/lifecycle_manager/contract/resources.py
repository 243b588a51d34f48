"""The Kubernetes resources that the Lifecycle Manager speaks, bound to the types that it reads them as."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar

import msgspec

from kube_runtime import Resource
from lifecycle_manager_api import (
    Kyma,
    Manifest,
    ModuleConfig,
    ModulePolicy,
    ModuleReleaseMeta,
    ModuleRollout,
    ModuleTemplate,
    ObjectMeta,
    RolloutStrategy,
    SyncResource,
    Watcher,
    names,
)


class Secret(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A core/v1 Secret; the values of `data` are base64, as on the wire."""

    GROUP: ClassVar[str] = ""
    VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "Secret"
    PLURAL: ClassVar[str] = "secrets"
    NAMESPACED: ClassVar[bool] = True

    api_version: str = "v1"
    kind: str = "Secret"
    metadata: ObjectMeta
    type: str = "Opaque"
    data: Mapping[str, str] = {}

    def __repr__(self) -> str:
        """Name the Secret and never show what is in it."""
        return f"Secret({self.metadata.namespace}/{self.metadata.name}, keys={sorted(self.data)})"


class FieldsEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One line of the record of who wrote what; of it only when."""

    time: datetime | None = None


class DatedMeta(ObjectMeta, frozen=True, kw_only=True):
    """Metadata that say when somebody last wrote the object."""

    managed_fields: tuple[FieldsEntry, ...] = ()

    @property
    def written_at(self) -> datetime | None:
        """When the object was last written; None where nobody says."""
        return max((entry.time for entry in self.managed_fields if entry.time is not None), default=None)


class DatedReleaseMeta(ModuleReleaseMeta, frozen=True, kw_only=True):
    """A ModuleReleaseMeta that says since when it is as it is."""

    KIND: ClassVar[str] = ModuleReleaseMeta.KIND
    PLURAL: ClassVar[str] = ModuleReleaseMeta.PLURAL

    metadata: DatedMeta = DatedMeta()


KYMAS = Resource.of(Kyma)
RAW_KYMAS: Resource[dict[str, Any]] = Resource.dynamic(KYMAS.group, KYMAS.version, KYMAS.kind, KYMAS.plural, True)
MANIFESTS = Resource.of(Manifest)
RAW_MANIFESTS: Resource[dict[str, Any]] = Resource.dynamic(
    MANIFESTS.group, MANIFESTS.version, MANIFESTS.kind, MANIFESTS.plural, True
)
MODULE_TEMPLATES = Resource.of(ModuleTemplate)
MODULE_RELEASE_METAS = Resource.of(ModuleReleaseMeta)
DATED_RELEASE_METAS = Resource.of(DatedReleaseMeta)
MODULE_CONFIGS = Resource.of(ModuleConfig)
MODULE_ROLLOUTS = Resource.of(ModuleRollout)
ROLLOUT_STRATEGIES = Resource.of(RolloutStrategy)
MODULE_POLICIES = Resource.of(ModulePolicy)
SYNC_RESOURCES = Resource.of(SyncResource)
WATCHERS = Resource.of(Watcher)
SECRETS = Resource.of(Secret)
NAMESPACES: Resource[dict[str, Any]] = Resource.dynamic("", "v1", "Namespace", "namespaces", namespaced=False)
SERVICE_ACCOUNTS: Resource[dict[str, Any]] = Resource.dynamic(
    "", "v1", "ServiceAccount", "serviceaccounts", namespaced=True
)
CUSTOM_RESOURCE_DEFINITIONS: Resource[dict[str, Any]] = Resource.dynamic(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
)

FIELD_MANAGER = "lifecycle-manager"


def labelled_crd(crd: Mapping[str, Any]) -> dict[str, Any]:
    """Return a CRD with the label that CRDs of the Lifecycle Manager have in SKRs."""
    return {**crd, "metadata": {**crd["metadata"], "labels": {names.MANAGED_BY: "kyma"}}}
