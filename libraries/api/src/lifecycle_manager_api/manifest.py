"""Manifest: the installation of a module in one cluster."""

from datetime import datetime
from typing import Annotated, ClassVar, Literal

import msgspec

from kube_crds import AGE, ATOMIC_LIST, REQUIRED, Column, Struct, default, schema
from lifecycle_manager_api import names
from lifecycle_manager_api.fields import EMBEDDED_OBJECT
from lifecycle_manager_api.kinds import READY, REASON, STATE, ApiObject, ObjectStatus
from lifecycle_manager_api.kyma import CustomResourcePolicy
from lifecycle_manager_api.references import ManagerReference, SyncedReference
from lifecycle_manager_api.selectors import Selector
from lifecycle_manager_api.state import State


class InstallInfo(Struct, frozen=True, kw_only=True):
    """The source of the module's resources."""

    name: str
    """Name of the installation."""
    source: msgspec.Raw
    """Location of the resources: an image reference of the same form as spec.config."""


class ImageSpec(Struct, frozen=True, kw_only=True):
    """An OCI image with a part of the module."""

    cred_secret_selector: Selector | None = None
    """The Secrets in the Manifest's namespace with credentials for the registry."""
    name: str = ""
    """Name of the image in the repository."""
    ref: str = ""
    """Digest, tag or version of the image."""
    repo: str = ""
    """The repository: registry and path."""
    type: Literal["helm-chart", "oci-ref", "kustomize", ""] = ""
    """Format of the image."""


class ManifestSpec(Struct, frozen=True, kw_only=True):
    """The desired state."""

    install: InstallInfo
    """The module's resources."""
    remote: bool
    """Without effect: modules are installed in the users' clusters only."""
    associated_resources: tuple[str, ...] = ()
    """Deprecated: a list of older versions of the API. It has no effect."""
    config: ImageSpec | None = None
    """The module's configuration."""
    custom_resource_policy: Annotated[CustomResourcePolicy, default("CreateAndDelete")] = "CreateAndDelete"
    """Whether the default Module CR is created and deleted with the module, or by the user."""
    localized_images: tuple[str, ...] = ()
    """Images in the registry of this landscape that replace the images of the resources."""
    manager: ManagerReference | None = None
    """The object that the module's readiness is read from."""
    resource: Annotated[msgspec.Raw, EMBEDDED_OBJECT, schema(nullable=True)] = msgspec.Raw(b"null")
    """The module's default Module CR."""
    version: str = ""
    """Version of the module."""


class ModuleRelease(Struct, frozen=True, kw_only=True):
    """The version that a rollout released to one cluster."""

    version: str
    """The version."""
    rollout: str
    """Name of the ModuleRollout."""
    at: datetime
    """When it was released."""
    allow_downgrade: Annotated[bool, default(False)] = False
    """Whether a lower version than the installed one is installed."""


class ReadyVersion(Struct, frozen=True, kw_only=True):
    """The version that a module is Ready with."""

    version: str
    """The version."""
    since: datetime
    """Since when the module has been Ready with it, without interruption."""


class ManifestStatus(ObjectStatus, frozen=True, kw_only=True):
    """The observed state."""

    state: Annotated[State, REQUIRED, default("")] = State.EMPTY
    """Summary of all conditions."""
    synced: Annotated[tuple[SyncedReference, ...], ATOMIC_LIST] = ()
    """The objects of the module in the user's cluster."""
    found: Annotated[tuple[SyncedReference, ...], ATOMIC_LIST] = ()
    """Those of these objects that existed in the cluster before. They are not deleted with the module."""
    release: ModuleRelease | None = None
    """The version that a rollout released to the cluster last. Left out where no rollout did."""
    ready_version: ReadyVersion | None = None
    """The version that the module is Ready with. Left out where it is not Ready, or no rollout released a version."""
    owner_uid: str = ""
    """Deprecated: the uid by which an earlier version names the owner of its objects. It has no effect."""


class Manifest(ApiObject, frozen=True, kw_only=True):
    """The installation of a module in one cluster."""

    GROUP: ClassVar[str] = names.GROUP
    VERSION: ClassVar[str] = "v1beta2"
    KIND: ClassVar[str] = "Manifest"
    PLURAL: ClassVar[str] = "manifests"
    SHORT_NAMES: ClassVar[tuple[str, ...]] = ("mf",)
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        STATE,
        READY,
        REASON,
        Column("Version", ".spec.version"),
        AGE,
    )

    api_version: str = f"{names.GROUP}/v1beta2"
    kind: str = "Manifest"
    spec: ManifestSpec
    """The desired state."""
    status: ManifestStatus = ManifestStatus()
    """The observed state."""
