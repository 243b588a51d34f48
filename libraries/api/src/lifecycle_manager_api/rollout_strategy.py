"""RolloutStrategy: in which waves the clusters get a new version of a module."""

from typing import Annotated, ClassVar, Literal

from kube_crds import AGE, Column, Struct, checked_by, default, keyed_by, schema
from lifecycle_manager_api import names
from lifecycle_manager_api.cel import NOT_REMAINING
from lifecycle_manager_api.kinds import ApiObject
from lifecycle_manager_api.selectors import Selector

REMAINING = "remaining"
"""The name of the last wave: the clusters that no other wave selects."""
MAX_WAVES = 32

Amount = Annotated[
    int | str, schema(pattern=r"^([0-9]{1,6}|(100|[0-9]{1,2})%)$", maxLength=6, minimum=0, maximum=999_999)
]
"""A number of clusters, also as text, or a share of the clusters of a wave, such as 10%."""
Period = Annotated[str, schema(pattern=r"^([0-9]{1,6}(ms|s|m|h)){1,4}$", maxLength=32)]
"""A duration as Kubernetes writes it, such as 30s, 5m or 1h30m."""


class WaveRules(Struct, frozen=True, kw_only=True):
    """How fast a wave goes, and what stops it."""

    max_concurrent: Annotated[Amount, default("10%")] = "10%"
    """How many clusters of the wave get the version at a time: a number, or a share of the wave, rounded up."""
    max_failures: Annotated[Amount, default("5%")] = "5%"
    """How many clusters of the wave may fail before the rollout is halted: a number, or a share of the wave, rounded
    down. A cluster fails when the module's state is Error with the version, or is not Ready by the deadline. A share
    counts clusters that fail for a reason for which another one of the wave does, too, and all when half of it
    fails."""
    progress_deadline: Annotated[Period, default("30m")] = "30m"
    """How long a cluster has to be Ready with the version. The wave waits as long for clusters that can't be reached or
    that wait for a maintenance window, and then goes on without them; they get the version later."""
    soak: Annotated[Period, default("10m")] = "10m"
    """How long all clusters of the wave have to be Ready with the version before the next wave begins."""
    pause_before: Annotated[Period, default("0s")] = "0s"
    """How long to wait after the wave before, before this one begins."""
    approval: Annotated[Literal["none", "required"], default("none")] = "none"
    """Whether somebody has to approve the wave before it begins, with `klm rollout approve`."""


class Wave(WaveRules, frozen=True, kw_only=True):
    """A part of the fleet that gets a version before the parts after it."""

    name: Annotated[
        str, schema(pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", minLength=1, maxLength=63), checked_by(NOT_REMAINING)
    ]
    """Name of the wave."""
    kyma_selector: Selector
    """The Kymas of the wave, by their labels; an empty selector matches all. A Kyma belongs to the first wave that
    matches it."""


class RolloutStrategySpec(Struct, frozen=True, kw_only=True):
    """The waves, in their order."""

    waves: Annotated[tuple[Wave, ...], keyed_by("name"), schema(minItems=1, maxItems=MAX_WAVES)]
    """The waves, in their order."""
    remaining: Annotated[WaveRules, default({})] = WaveRules()
    """The last wave, named remaining: the clusters that no wave selects."""


class RolloutStrategy(ApiObject, frozen=True, kw_only=True):
    """In which waves the clusters get a new version of a module.

    Written by the operators of the control plane. A ModuleReleaseMeta names its strategy in the annotation
    operator.kyma-project.io/rollout-strategy.
    """

    GROUP: ClassVar[str] = names.GROUP
    VERSION: ClassVar[str] = "v1alpha1"
    KIND: ClassVar[str] = "RolloutStrategy"
    PLURAL: ClassVar[str] = "rolloutstrategies"
    SHORT_NAMES: ClassVar[tuple[str, ...]] = ("rstrat",)
    COLUMNS: ClassVar[tuple[Column, ...]] = (Column("Waves", ".spec.waves[*].name"), AGE)

    api_version: str = f"{names.GROUP}/v1alpha1"
    kind: str = "RolloutStrategy"
    spec: RolloutStrategySpec
    """The waves, in their order."""
