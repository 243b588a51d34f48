"""Events of mandatory modules and the condition `MandatoryModules` of a Kyma, and their reasons."""

from typing import Any

from kube_runtime import EventRecorder, Resource
from lifecycle_manager.kyma_conditions import MANDATORY_MODULES
from lifecycle_manager.mandatory_modules.plan import CannotInstall
from lifecycle_manager.resources import MODULE_RELEASE_METAS, MODULE_TEMPLATES
from lifecycle_manager.skr import failure_of
from lifecycle_manager_api import ConditionStatus, Kyma, ModuleTemplate, find

CANNOT_BE_INSTALLED = "CannotBeInstalled"
FIELD_MANAGER = "lifecycle-manager-mandatory-modules"
DECIDED: tuple[ConditionStatus, str, str] = (
    "True",
    "ManifestsWritten",
    "the Manifests of mandatory modules are written",
)


def failed(error: Exception) -> tuple[ConditionStatus, str, str]:
    """Return the condition after an unforeseen exception."""
    failure = failure_of(error)
    return "False", failure.reason, failure.message


def is_reported(kyma: Kyma) -> bool:
    """Tell whether the condition has reported a failure."""
    condition = find(kyma.status.conditions, MANDATORY_MODULES)
    return condition is not None and condition.status == "False"


def report(events: EventRecorder, step: CannotInstall) -> None:
    """Record an Event on a template or release that can't be installed."""
    is_template = isinstance(step.release, ModuleTemplate)
    resource: Resource[Any] = MODULE_TEMPLATES if is_template else MODULE_RELEASE_METAS
    events.record(resource, step.release, CANNOT_BE_INSTALLED, step.why, type="Warning")
