"""Kyma: one user cluster, and the modules that its users want in it."""

from typing import Annotated, ClassVar, Literal

import msgspec

from lifecycle_manager_api import names
from lifecycle_manager_api.fields import REQUIRED, Channel, default, keyed_by
from lifecycle_manager_api.kinds import AGE, READY, REASON, STATE, ApiObject, Column, Status
from lifecycle_manager_api.meta import Struct
from lifecycle_manager_api.references import TrackingObject
from lifecycle_manager_api.state import State

CustomResourcePolicy = Literal["CreateAndDelete", "Ignore"]


class KymaModule(Struct, frozen=True, kw_only=True):
    """A module that is asked for."""

    name: str
    """Name of the module, as its ModuleReleaseMeta has it."""
    channel: Channel | None = None
    """Channel from which the module is taken. Left out, the Kyma's own channel counts."""
    controller: str = ""
    """Name of the controller that shall look after the module. Kept for older objects; has no effect."""
    custom_resource_policy: Annotated[CustomResourcePolicy, default("CreateAndDelete")] = "CreateAndDelete"
    """Whether the module's default Module CR is created with the module and deleted with it, or left to the user."""
    managed: Annotated[bool, REQUIRED, default(True)] = True
    """Whether Lifecycle Manager looks after the module. With false it stays installed as it is."""
    remote_module_template_ref: str = ""
    """Reference to a ModuleTemplate in the user's cluster. Kept for older objects; has no effect."""


class KymaSpec(Struct, frozen=True, kw_only=True):
    """What is wanted."""

    channel: Channel
    """Channel from which modules are taken that name none of their own, regular or fast for instance."""
    modules: Annotated[tuple[KymaModule, ...], keyed_by("name")] = ()
    """The modules that are asked for. In the control plane these are only the defaults for a new cluster."""
    skip_maintenance_windows: bool = False
    """Whether upgrades with a downtime are installed at once instead of in the next maintenance window."""
    sync: msgspec.Raw = msgspec.Raw(b"null")
    """Deprecated: settings of v1beta1, kept as they are and without effect."""


class KymaModuleStatus(Struct, frozen=True, kw_only=True):
    """How a module is."""

    name: str
    """Name of the module."""
    state: Annotated[State, REQUIRED, default("")] = State.EMPTY
    """The state of the module in this cluster."""
    channel: str = ""
    """Channel from which the module was taken."""
    version: str = ""
    """Version of the module that is installed, or is being installed."""
    message: str = ""
    """Why the module is in its state."""
    fqdn: str = ""
    """Deprecated: the OCM component, as older clients know it."""
    ocm_component_name: str = ""
    """The OCM component that the module comes from."""
    maintenance: Annotated[bool, default(False)] = False
    """Whether an upgrade waits for the next maintenance window."""
    template: TrackingObject | None = None
    """The ModuleTemplate that the module resolved to."""
    manifest: TrackingObject | None = None
    """The Manifest by which the module is installed."""
    resource: TrackingObject | None = None
    """The module's default Module CR in the user's cluster."""


class KymaStatus(Status, frozen=True, kw_only=True):
    """How it is."""

    active_channel: str = ""
    """Channel that modules without one of their own are taken from now."""
    modules: tuple[KymaModuleStatus, ...] = ()
    """How each module is, mandatory ones excepted."""


class Kyma(ApiObject, frozen=True, kw_only=True):
    """One user cluster, and the modules that its users want in it."""

    GROUP: ClassVar[str] = names.GROUP
    VERSION: ClassVar[str] = "v1beta2"
    KIND: ClassVar[str] = "Kyma"
    PLURAL: ClassVar[str] = "kymas"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        STATE,
        READY,
        REASON,
        Column("Channel", ".spec.channel", wide=True),
        AGE,
    )

    api_version: str = f"{names.GROUP}/v1beta2"
    kind: str = "Kyma"
    spec: KymaSpec
    """What is wanted. In the user's cluster this is the user's own to write."""
    status: KymaStatus = KymaStatus()
    """How it is."""
