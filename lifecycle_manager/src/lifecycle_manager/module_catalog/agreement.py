"""Reports which ModuleTemplates contradict themselves about their module or version, so that nobody gets them.

The condition `Consistent` is there only as long as it is `False`: a template that can be offered needs no write.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from msgspec import structs

from kube_runtime import Causes, Change, Controller, Informer, KubeError, Manager, NotFound, ObjectKey, Result
from lifecycle_manager.contract.changes import versions
from lifecycle_manager.contract.resources import DATED_RELEASE_METAS, MODULE_TEMPLATES, DatedReleaseMeta
from lifecycle_manager.contract.signals import DescriptorFound
from lifecycle_manager.module_catalog.affected import offer_changed
from lifecycle_manager.module_catalog.identity import names_of
from lifecycle_manager.module_catalog.offer import Offer
from lifecycle_manager.module_catalog.template_status import TemplateStatuses
from lifecycle_manager_api import ModuleTemplate, ModuleTemplateStatus, find
from lifecycle_manager_api.conditions import NewCondition, set_conditions

CONSISTENT, CONTRADICTORY = "Consistent", "Contradictory"
WRITE_AGAIN_SECONDS = 15.0


def setup(manager: Manager, statuses: TemplateStatuses, offer: Callable[[], Offer]) -> None:
    """Add the controller."""
    templates = manager.informer(MODULE_TEMPLATES)
    agreement = Agreement(manager, templates, statuses, offer)
    # Each replica does: where the fleet is split, a replica has Kymas alone.
    controller: Controller[ObjectKey, None] = manager.controller("module-agreement", owner=lambda _: "")
    controller.watches(templates, when=offer_changed)
    controller.watches(manager.informer(DATED_RELEASE_METAS), to=agreement.of_release, when=component_changed)
    controller.receives(DescriptorFound, to=lambda found: (ObjectKey(found.namespace, found.template),))
    controller.reconciles(agreement.reconcile)


@dataclass(frozen=True, eq=False)
class Agreement:
    manager: Manager
    templates: Informer[ModuleTemplate]
    statuses: TemplateStatuses
    offer: Callable[[], Offer]

    async def reconcile(self, key: ObjectKey, _causes: Causes, _state: None) -> Result:
        """Report where a template contradicts itself, or withdraw that."""
        template = self.templates.get(key)
        if template is None:
            return Result()
        found = self.offer().disagreeing.get(template.metadata.name)
        status_of = partial(status_with, why=found.why if found is not None else "", now=self.manager.clock.now())
        try:
            await self.statuses.write(template, status_of)
        except NotFound:
            return Result()  # the template is gone, or its CRD has no status
        except KubeError:
            return Result(requeue_after=WRITE_AGAIN_SECONDS)
        return Result()

    def of_release(self, change: Change[DatedReleaseMeta]) -> Iterable[ObjectKey]:
        """Return the templates of the release's module."""
        modules = {each.spec.module_name for each in versions(change)}
        return [MODULE_TEMPLATES.key_of(each) for each in self.templates.cache.list() if names_of(each) & modules]


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
