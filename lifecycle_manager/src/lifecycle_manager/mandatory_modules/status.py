"""Events of mandatory modules, and their reasons."""

from typing import Any

from kube_runtime import EventRecorder, Resource
from lifecycle_manager.mandatory_modules.plan import CannotInstall
from lifecycle_manager.resources import MODULE_RELEASE_METAS, MODULE_TEMPLATES
from lifecycle_manager_api import ModuleTemplate

CANNOT_BE_INSTALLED = "CannotBeInstalled"


def report(events: EventRecorder, step: CannotInstall) -> None:
    """Record an Event on a template or release that can't be installed."""
    is_template = isinstance(step.release, ModuleTemplate)
    resource: Resource[Any] = MODULE_TEMPLATES if is_template else MODULE_RELEASE_METAS
    events.record(resource, step.release, CANNOT_BE_INSTALLED, step.why, type="Warning")
