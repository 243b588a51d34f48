"""ModuleRollout: the way of one version of a module through the fleet."""

from datetime import datetime
from typing import Annotated, ClassVar, Literal

from kube_crds import AGE, ATOMIC_LIST, Column, Conditions, Struct, checked_by, default, keyed_by, schema
from lifecycle_manager_api import names
from lifecycle_manager_api.cel import IMMUTABLE
from lifecycle_manager_api.fields import Channel, ModuleName
from lifecycle_manager_api.kinds import ApiObject
from lifecycle_manager_api.rollout_strategy import MAX_WAVES, RolloutStrategySpec

RolloutPhase = Literal[
    "Pending", "Progressing", "Soaking", "AwaitingApproval", "Paused", "Halted", "Completed", "Superseded"
]
MAX_UNDER_WAY = 1000
MAX_FAILED = 20


class WaveApproval(Struct, frozen=True, kw_only=True):
    """Who let a wave begin."""

    wave: str
    """Name of the wave."""
    by: str = ""
    """The user who approved it, as the tool that wrote this says."""
    at: datetime | None = None
    """When it was approved."""


class ModuleRolloutSpec(Struct, frozen=True, kw_only=True):
    """What is rolled out, and how operators steer it."""

    module_name: Annotated[ModuleName, checked_by(IMMUTABLE)]
    """Name of the module."""
    channel: Annotated[Channel, checked_by(IMMUTABLE)]
    """The channel that got another version; "mandatory" for a mandatory module."""
    version: Annotated[str, schema(minLength=1, maxLength=64), checked_by(IMMUTABLE)]
    """The version that the clusters get."""
    content: Annotated[str, schema(maxLength=64), checked_by(IMMUTABLE)] = ""
    """Digest of what the version's ModuleTemplate installs. Left out where that does not matter, or is not known."""
    former_version: Annotated[str, schema(maxLength=64)] = ""
    """The version before, which new clusters get until their wave is completed. Empty for the first rollout."""
    revision: Annotated[int, schema(minimum=1)] = 1
    """Number of the rollout among those of the module and channel; the highest one counts."""
    strategy: Annotated[RolloutStrategySpec, checked_by(IMMUTABLE)]
    """The waves, as the RolloutStrategy had them when the rollout began."""
    undoes: Annotated[str, schema(maxLength=253)] = ""
    """The ModuleRollout that this one takes back. The clusters return in the reverse order of the waves."""
    at_once: Annotated[bool, default(False)] = False
    """Whether all clusters get the version at once, without waves and limits."""
    paused: Annotated[bool, default(False)] = False
    """Whether no further clusters get the version for now."""
    halted: Annotated[bool, default(False)] = False
    """Whether the rollout is stopped because something is wrong, like after too many failures."""
    approvals: Annotated[tuple[WaveApproval, ...], keyed_by("wave"), schema(maxItems=MAX_WAVES + 1)] = ()
    """The waves that somebody approved."""
    accepted_failures: Annotated[int, schema(minimum=0)] = 0
    """How many failed clusters operators accept, in all waves with more than their strategy does."""


class WaveStatus(Struct, frozen=True, kw_only=True):
    """How far a wave is."""

    name: str
    """Name of the wave."""
    clusters: int = 0
    """Clusters of the wave that have the module of this channel."""
    waiting: int = 0
    """Clusters that do not have the version yet."""
    held: int = 0
    """Clusters that wait for a maintenance window, or are paused."""
    under_way: int = 0
    """Clusters that are getting the version."""
    soaking: int = 0
    """Clusters that are Ready with the version, but not for the soak time yet."""
    healthy: int = 0
    """Clusters that have been Ready with the version for the soak time."""
    failed: int = 0
    """Clusters that are in Error with the version, or were not Ready by the deadline."""
    unreachable: int = 0
    """Clusters that can't be reached."""
    started_at: datetime | None = None
    """When the wave began."""
    settled_at: datetime | None = None
    """Since when no cluster is waiting or under way, so that the wave waits for the soak times alone."""
    completed_at: datetime | None = None
    """When the wave was completed; from then on new clusters get the version."""


class UnderWay(Struct, frozen=True, kw_only=True):
    """A cluster that may have the version and is not Ready with it yet."""

    kyma: str
    """Name of the Kyma."""
    since: datetime
    """When the rollout released the version to it."""


class FailedCluster(Struct, frozen=True, kw_only=True):
    """A cluster that failed, and why."""

    kyma: str
    """Name of the Kyma."""
    wave: str
    """Name of its wave."""
    reason: str
    """Reason of the Manifest's condition Ready."""
    message: str = ""
    """What is wrong."""


class ModuleRolloutStatus(Struct, frozen=True, kw_only=True):
    """How far the rollout is."""

    phase: Annotated[RolloutPhase, default("Pending")] = "Pending"
    """Summary of the conditions."""
    wave: str = ""
    """Name of the wave that is under way."""
    message: str = ""
    """What the rollout waits for, or why it is halted."""
    clusters: int = 0
    """Clusters that have the module of this channel."""
    updated: int = 0
    """Clusters that are Ready with the version."""
    failed: int = 0
    """Clusters that failed."""
    conditions: Conditions = ()
    """The conditions Progressing, Halted and Completed."""
    waves: Annotated[tuple[WaveStatus, ...], ATOMIC_LIST] = ()
    """The waves, in the order in which they get the version."""
    under_way: Annotated[tuple[UnderWay, ...], ATOMIC_LIST, schema(maxItems=MAX_UNDER_WAY)] = ()
    """The clusters that are getting the version."""
    failed_clusters: Annotated[tuple[FailedCluster, ...], ATOMIC_LIST, schema(maxItems=MAX_FAILED)] = ()
    """The first clusters that failed."""
    failures_at_halt: int = 0
    """Failed clusters when the rollout was halted; 0 where it was not."""
    started_at: datetime | None = None
    """When the rollout began."""
    expected_end: datetime | None = None
    """When it will be completed if it goes on as fast as before."""
    completed_at: datetime | None = None
    """When it was completed, or superseded."""
    observed_generation: int | None = None
    """The metadata.generation that this status is about."""


class ModuleRollout(ApiObject, frozen=True, kw_only=True):
    """The way of one version of a module through the fleet, in the waves of its RolloutStrategy.

    Made by Lifecycle Manager when a channel gets another version. Operators steer it with `klm rollout`.
    """

    GROUP: ClassVar[str] = names.GROUP
    VERSION: ClassVar[str] = "v1alpha1"
    KIND: ClassVar[str] = "ModuleRollout"
    PLURAL: ClassVar[str] = "modulerollouts"
    SHORT_NAMES: ClassVar[tuple[str, ...]] = ("mro",)
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("Module", ".spec.moduleName"),
        Column("Channel", ".spec.channel"),
        Column("Version", ".spec.version"),
        Column("Phase", ".status.phase"),
        Column("Wave", ".status.wave"),
        Column("Updated", ".status.updated"),
        Column("Failed", ".status.failed"),
        Column("Clusters", ".status.clusters"),
        AGE,
    )

    api_version: str = f"{names.GROUP}/v1alpha1"
    kind: str = "ModuleRollout"
    spec: ModuleRolloutSpec
    """What is rolled out, and how operators steer it."""
    status: ModuleRolloutStatus = ModuleRolloutStatus()
    """How far the rollout is."""
