"""Manifest: a module as it is to be installed in one cluster."""

from typing import ClassVar, Literal

import msgspec

from lifecycle_manager_api import names
from lifecycle_manager_api.conditions import Condition
from lifecycle_manager_api.kyma import CustomResourcePolicy, LastOperation
from lifecycle_manager_api.meta import LabelSelector, ObjectMeta, Struct
from lifecycle_manager_api.references import ManagerReference, SyncedReference
from lifecycle_manager_api.state import State


class InstallInfo(Struct, frozen=True, kw_only=True):
    """Where the module's resources come from."""

    name: str
    source: msgspec.Raw


class ImageSpec(Struct, frozen=True, kw_only=True):
    """Where the module's configuration comes from."""

    cred_secret_selector: LabelSelector | None = None
    name: str = ""
    ref: str = ""
    repo: str = ""
    type: Literal["helm-chart", "oci-ref", "kustomize", ""] = ""


class ManifestSpec(Struct, frozen=True, kw_only=True):
    """What is wanted."""

    install: InstallInfo
    remote: bool
    config: ImageSpec | None = None
    custom_resource_policy: CustomResourcePolicy = "CreateAndDelete"
    localized_images: tuple[str, ...] = ()
    manager: ManagerReference | None = None
    resource: msgspec.Raw = msgspec.Raw(b"null")
    version: str = ""


class ManifestStatus(Struct, frozen=True, kw_only=True):
    """How it is."""

    state: State = State.EMPTY
    conditions: tuple[Condition, ...] = ()
    last_operation: LastOperation | None = None
    synced: tuple[SyncedReference, ...] = ()
    observed_generation: int | None = None


class Manifest(Struct, frozen=True, kw_only=True):
    """Manifest: a module as it is to be installed in one cluster."""

    GROUP: ClassVar[str] = names.GROUP
    VERSION: ClassVar[str] = "v1beta2"
    KIND: ClassVar[str] = "Manifest"
    PLURAL: ClassVar[str] = "manifests"
    NAMESPACED: ClassVar[bool] = True

    api_version: str = f"{names.GROUP}/v1beta2"
    kind: str = "Manifest"
    metadata: ObjectMeta = ObjectMeta()
    spec: ManifestSpec
    status: ManifestStatus = ManifestStatus()
