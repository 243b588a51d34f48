"""Kyma: one user cluster and its modules."""

from datetime import datetime
from typing import Annotated, ClassVar, Literal

import msgspec

from kube_crds import AGE, REQUIRED, Column, Struct, default, keyed_by
from lifecycle_manager_api import names
from lifecycle_manager_api.fields import Channel
from lifecycle_manager_api.kinds import READY, REASON, STATE, ApiObject, ObjectStatus
from lifecycle_manager_api.references import TrackingObject
from lifecycle_manager_api.state import State

CustomResourcePolicy = Literal["CreateAndDelete", "Ignore"]
UpgradeStrategy = Literal["automatic", "manual"]


class KymaModule(Struct, frozen=True, kw_only=True):
    """A module to install."""

    name: str
    """Name of the module, as in its ModuleReleaseMeta."""
    channel: Channel | None = None
    """Channel of the module. Left out, the channel of the Kyma is used."""
    controller: str = ""
    """Deprecated: name of the controller of the module. It has no effect."""
    custom_resource_policy: Annotated[CustomResourcePolicy, default("CreateAndDelete")] = "CreateAndDelete"
    """Whether the module's default Module CR is created and deleted with the module, or by the user."""
    managed: Annotated[bool, REQUIRED, default(True)] = True
    """Whether Lifecycle Manager manages the module. An unmanaged module stays installed as it is."""
    upgrade_strategy: Annotated[UpgradeStrategy, default("automatic")] = "automatic"
    """When the module gets a new version of its channel: automatic when it is its turn, or manual: once this is
    automatic again, and at the latest by the deadline of the release. The status says which version is available."""
    remote_module_template_ref: str = ""
    """Deprecated: reference to a ModuleTemplate in the user's cluster. It has no effect."""


class KymaSpec(Struct, frozen=True, kw_only=True):
    """The desired state."""

    channel: Channel
    """Channel of the modules that do not name a channel, for example regular or fast."""
    modules: Annotated[tuple[KymaModule, ...], keyed_by("name")] = ()
    """The modules to install. In the control plane these are only the defaults for a new cluster."""
    skip_maintenance_windows: bool = False
    """Whether upgrades with a downtime are installed immediately instead of in the next maintenance window."""
    sync: msgspec.Raw = msgspec.Raw(b"null")
    """Deprecated: settings of v1beta1. They have no effect."""


class KymaModuleStatus(Struct, frozen=True, kw_only=True):
    """The observed state of a module."""

    name: str
    """Name of the module."""
    state: Annotated[State, REQUIRED, default("")] = State.EMPTY
    """The state of the module in this cluster."""
    channel: str = ""
    """Channel of the module."""
    version: str = ""
    """Version of the module that is installed or being installed."""
    message: str = ""
    """Reason for the state of the module."""
    fqdn: str = ""
    """Deprecated: the OCM component of the module, for older clients."""
    ocm_component_name: str = ""
    """The OCM component of the module."""
    available_version: str = ""
    """The version that is installed once the upgradeStrategy is automatic. Left out where there is none."""
    upgrade_by: datetime | None = None
    """When that version is installed by itself. Left out where it has no deadline."""
    maintenance: Annotated[bool, default(False)] = False
    """Whether an upgrade is waiting for the next maintenance window."""
    template: TrackingObject | None = None
    """The ModuleTemplate of the module's version."""
    manifest: TrackingObject | None = None
    """The Manifest that installs the module."""
    resource: TrackingObject | None = None
    """The module's default Module CR in the user's cluster."""


class SkrRecords(Struct, frozen=True, kw_only=True):
    """What Lifecycle Manager applied last to the user's cluster, as digests."""

    kyma_crd: str = ""
    """The CRD of Kymas."""
    catalog: str = ""
    """The CRDs of the module catalog, and the catalog."""
    watcher: str = ""
    """The Watcher, and the Watcher CRs that its webhooks are made from."""
    trust: str = ""
    """The CAs that the Watcher trusts."""


class KymaStatus(ObjectStatus, frozen=True, kw_only=True):
    """The observed state."""

    active_channel: str = ""
    """Current channel of the modules that do not name a channel."""
    skip_maintenance_windows: bool = False
    """Whether upgrades with a downtime are currently installed immediately, as the Kyma in the user's cluster says."""
    modules: tuple[KymaModuleStatus, ...] = ()
    """The observed state of each module, except mandatory ones."""
    records: SkrRecords = SkrRecords()
    """What Lifecycle Manager applied last to the user's cluster, as digests. Only in the control plane."""


class Kyma(ApiObject, frozen=True, kw_only=True):
    """One user cluster and its modules."""

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
    """The desired state. In the user's cluster the user writes it."""
    status: KymaStatus = KymaStatus()
    """The observed state."""
