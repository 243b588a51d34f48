"""Reports which ModuleTemplates contradict themselves about their module or version, so that nobody gets them.

The condition `Consistent` is there only as long as it is `False`: a template that can be offered needs no write.
"""

from datetime import datetime

from msgspec import structs

from kube_runtime import Change
from lifecycle_manager.contract.resources import DatedReleaseMeta
from lifecycle_manager_api import ModuleTemplate, ModuleTemplateStatus, find
from lifecycle_manager_api.conditions import NewCondition, set_conditions

CONSISTENT, CONTRADICTORY = "Consistent", "Contradictory"


def component_changed(change: Change[DatedReleaseMeta]) -> bool:
    """Tell whether a release names another component than before."""
    before, after = (_component(each) for each in (change.old, change.new))
    return before != after


def _component(release: DatedReleaseMeta | None) -> tuple[str, str] | None:
    if release is None or release.metadata.being_deleted or not release.spec.ocm_component_name:
        return None
    return release.spec.module_name, release.spec.ocm_component_name


def status_with(template: ModuleTemplate, *, why: str, now: datetime) -> ModuleTemplateStatus:
    """Return the status of a template that contradicts itself; "" for one that does not."""
    present = template.status
    if not why:
        if find(present.conditions, CONSISTENT) is None:
            return present
        return structs.replace(
            present, conditions=tuple(each for each in present.conditions if each.type != CONSISTENT)
        )
    message = (
        f"{why}. It is offered to nobody until its name, label, spec and component say the same module and version"
    )
    condition: NewCondition = (CONSISTENT, "False", CONTRADICTORY, message)
    conditions = set_conditions(present.conditions, [condition], template.metadata.generation, now)
    return structs.replace(present, conditions=conditions)
