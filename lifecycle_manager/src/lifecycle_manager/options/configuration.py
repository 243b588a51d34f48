"""Configuration of modules: their Module CRs and SyncResources."""

from pydantic import Field

from lifecycle_manager.options.clusters import BrakeSettings
from lifecycle_manager.options.model import DomainSettings
from lifecycle_manager.options.shared import Concurrency, Interval, ObjectsInterval, PullSecret
from lifecycle_manager.options.types import Count


class Quota(DomainSettings):
    """How many Module CRs of one module in one SKR become ModuleConfigs, and how many bytes of text they have."""

    max_objects: Count = Field(
        default=200,
        validation_alias="max-module-crs",
        description="maximum of Module CRs of one module that are synchronized from an SKR",
    )
    max_bytes: int = 4 * 1024 * 1024


class ModuleConfigSettings(DomainSettings):
    """The settings of the domain."""

    interval_seconds: Interval = 240.0
    concurrency: Concurrency = 50
    quota: Quota = Quota()


class ModuleCrStatusSettings(DomainSettings):
    """The settings of the domain."""

    concurrency: Concurrency = 50


class SyncResourceSettings(DomainSettings):
    """Options of this controller. `pull_secret`: the name of the image pull Secret."""

    interval_seconds: ObjectsInterval = 120.0
    pull_secret: PullSecret = ""
    max_per_module: int = 100
    concurrency: Concurrency = 50
    brake: BrakeSettings = BrakeSettings()
