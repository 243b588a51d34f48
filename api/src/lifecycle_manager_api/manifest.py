"""Manifest: a module as it is to be installed in one cluster."""

from typing import Annotated, ClassVar, Literal

import msgspec

from lifecycle_manager_api import names
from lifecycle_manager_api.fields import ATOMIC_LIST, EMBEDDED_OBJECT, REQUIRED, default, schema
from lifecycle_manager_api.kinds import AGE, READY, REASON, STATE, ApiObject, Column, Status
from lifecycle_manager_api.kyma import CustomResourcePolicy
from lifecycle_manager_api.meta import Struct
from lifecycle_manager_api.references import ManagerReference, SyncedReference
from lifecycle_manager_api.selectors import Selector
from lifecycle_manager_api.state import State


class InstallInfo(Struct, frozen=True, kw_only=True):
    """Where the module's resources come from."""

    name: str
    """Name of the installation."""
    source: msgspec.Raw
    """Where the resources are: an image reference of the same form as spec.config."""


class ImageSpec(Struct, frozen=True, kw_only=True):
    """An OCI image that holds a part of the module."""

    cred_secret_selector: Selector | None = None
    """The Secrets in the Manifest's namespace that hold credentials for the registry."""
    name: str = ""
    """Name of the image in the repository."""
    ref: str = ""
    """Digest, tag or version of the image."""
    repo: str = ""
    """The repository: registry and path."""
    type: Literal["helm-chart", "oci-ref", "kustomize", ""] = ""
    """How the image is to be read."""


class ManifestSpec(Struct, frozen=True, kw_only=True):
    """What is wanted."""

    install: InstallInfo
    """The module's resources."""
    remote: bool
    """Whether the module goes to the user's cluster; Lifecycle Manager installs nowhere else."""
    associated_resources: tuple[str, ...] = ()
    """Deprecated: a list of older versions, kept as it is and without effect."""
    config: ImageSpec | None = None
    """The module's configuration."""
    custom_resource_policy: Annotated[CustomResourcePolicy, default("CreateAndDelete")] = "CreateAndDelete"
    """Whether the default Module CR is created with the module and deleted with it, or left to the user."""
    localized_images: tuple[str, ...] = ()
    """Images in the registry of this landscape, in the place of those that the resources name."""
    manager: ManagerReference | None = None
    """The object by whose readiness the module's own is told."""
    resource: Annotated[msgspec.Raw, EMBEDDED_OBJECT, schema(nullable=True)] = msgspec.Raw(b"null")
    """The module's default Module CR."""
    version: str = ""
    """Version of the module."""


class ManifestStatus(Status, frozen=True, kw_only=True):
    """How it is."""

    state: Annotated[State, REQUIRED, default("")] = State.EMPTY
    """All aspects added up to one word."""
    synced: Annotated[tuple[SyncedReference, ...], ATOMIC_LIST] = ()
    """The objects that the module consists of in the user's cluster."""


class Manifest(ApiObject, frozen=True, kw_only=True):
    """A module as it is to be installed in one cluster."""

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
    """What is wanted."""
    status: ManifestStatus = ManifestStatus()
    """How it is."""
