"""The condition `MandatoryModules` of a Kyma, and the reasons of mandatory modules."""

from collections.abc import Iterable

from lifecycle_manager.contract.conditions import DELETION_HELD, MANDATORY_MODULES
from lifecycle_manager.skr import failure_of
from lifecycle_manager.skr.brake import removal_waits_for
from lifecycle_manager_api import ConditionStatus, Kyma, find

CANNOT_BE_INSTALLED = "CannotBeInstalled"
MandatoryCondition = tuple[ConditionStatus, str, str]
"""Status, reason and message."""
DECIDED: MandatoryCondition = ("True", "ManifestsWritten", "the Manifests of mandatory modules are written")


def failed(error: Exception) -> MandatoryCondition:
    failure = failure_of(error)
    return "False", failure.reason, failure.message


def held(kyma: Kyma, modules: Iterable[str]) -> MandatoryCondition:
    what = f"not mandatory any more: {', '.join(sorted(modules))}"
    return "False", DELETION_HELD, f"{what}; the removal waits for {removal_waits_for(kyma.metadata.name)}"


def is_reported(kyma: Kyma) -> bool:
    condition = find(kyma.status.conditions, MANDATORY_MODULES)
    return condition is not None and condition.status == "False"
