"""Reports on each ModuleTemplate by itself: whether it contradicts itself, and what is behind its link.

One that contradicts itself about its module or version is offered to nobody. The condition `Consistent` is there only
as long as it is `False`: a template that can be offered needs no write.

Whoever may change the file behind a link to a template's objects would else change every cluster. So the digest of the
content that was seen first is recorded in the status of the ModuleTemplate, which Lifecycle Manager alone writes,
before anything is installed, and Manifests name it. Another content of the same version is refused, and reported in the
condition `LinkPinned`.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from msgspec import structs

from kube_runtime import Causes, Change, Controller, Informer, KubeError, Manager, NotFound, ObjectKey, Result
from kyma_oci.references import content_digest
from lifecycle_manager.contract.changes import versions
from lifecycle_manager.contract.resources import DATED_RELEASE_METAS, MODULE_TEMPLATES, DatedReleaseMeta
from lifecycle_manager.contract.signals import DescriptorFound
from lifecycle_manager.module_catalog.affected import offer_changed
from lifecycle_manager.module_catalog.identity import names_of, version_of
from lifecycle_manager.module_catalog.offer import Offer, link_of, link_pin_of
from lifecycle_manager.module_catalog.template_status import TemplateStatuses
from lifecycle_manager.module_sources.downloads import DownloadFailed
from lifecycle_manager_api import ModuleTemplate, ModuleTemplateStatus, PinnedLink, find
from lifecycle_manager_api.conditions import NewCondition, set_conditions

CONSISTENT, CONTRADICTORY = "Consistent", "Contradictory"
LINK_PINNED, LINK_CHANGED, LINK_UNREADABLE = "LinkPinned", "LinkChanged", "LinkUnreadable"
RECHECK_SECONDS = 600.0
"""How soon another content behind a link is reported."""
RETRY_SECONDS = 15.0
"""How soon a link is read again that could not be read, or a status written that could not be written."""


def setup(
    manager: Manager, statuses: TemplateStatuses, fetch: Callable[[str], Awaitable[str]], offer: Callable[[], Offer]
) -> None:
    """Add the controller. `fetch` returns the text behind a link, and raises DownloadFailed."""
    templates = manager.informer(MODULE_TEMPLATES)
    reports = TemplateReports(manager, templates, statuses, fetch, offer)
    # Each replica reports on all: where the fleet is split, a replica has Kymas alone.
    controller: Controller[ObjectKey, None] = manager.controller("module-template", owner=lambda _: "")
    controller.watches(templates, when=offer_changed)
    controller.watches(manager.informer(DATED_RELEASE_METAS), to=reports.of_release, when=component_changed)
    controller.receives(DescriptorFound, to=lambda found: (ObjectKey(found.namespace, found.template),))
    controller.reconciles(reports.reconcile)


@dataclass(frozen=True, eq=False)
class TemplateReports:
    manager: Manager
    templates: Informer[ModuleTemplate]
    statuses: TemplateStatuses
    fetch: Callable[[str], Awaitable[str]]
    offer: Callable[[], Offer]

    async def reconcile(self, key: ObjectKey, _causes: Causes, _state: None) -> Result:
        """Report where a template contradicts itself, or withdraw that; then record the digest of its link."""
        template, offer = self.templates.get(key), self.offer()
        if template is None:
            return Result()
        found, now = offer.disagreeing.get(template.metadata.name), self.manager.clock.now()
        why = found.why if found is not None else ""
        try:
            template = await self.statuses.write(template, partial(consistency_status, why=why, now=now))
            return await self._pin(template) if offer.reads_link(template) else Result()
        except NotFound:
            return Result()  # the template is gone, or its CRD has no status
        except KubeError:
            return Result(requeue_after=RETRY_SECONDS)

    async def _pin(self, template: ModuleTemplate) -> Result:
        """Record the digest of a template's link, or report that its content is another one. Raises KubeError."""
        try:
            content = (await self.fetch(link_of(template) or "")).encode()
        except DownloadFailed as error:
            digest, problem = "", str(error)
        else:
            digest, problem = content_digest(content), ""
        read, now = pinned_for(template), self.manager.clock.now()

        def status_of(present: ModuleTemplate) -> ModuleTemplateStatus:
            if pinned_for(present) != read:
                return present.status  # edited or created again meanwhile, for which it is read again
            return link_status(present, digest=digest, problem=problem, now=now)

        await self.statuses.write(template, status_of)
        return Result(requeue_after=RECHECK_SECONDS if digest else RETRY_SECONDS)

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


def consistency_status(template: ModuleTemplate, *, why: str, now: datetime) -> ModuleTemplateStatus:
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


def pinned_for(template: ModuleTemplate) -> tuple[str, str | None, str]:
    """Return what the content of a link is read for."""
    return template.metadata.uid, link_of(template), version_of(template)


def link_status(template: ModuleTemplate, *, digest: str, problem: str, now: datetime) -> ModuleTemplateStatus:
    """Return the status of a template whose link has a content with this digest; "" where it can't be read."""
    present, link, version = template.status, link_of(template) or "", version_of(template)
    pin = link_pin_of(template) or digest
    if not digest:
        condition: NewCondition = (LINK_PINNED, "False", LINK_UNREADABLE, problem)
    elif digest != pin:
        message = (
            f"{link} is {digest} by now, which is not installed: version {version} is {pin}, as seen first. "
            "Publish another version, or delete the ModuleTemplate and create it again"
        )
        condition = (LINK_PINNED, "False", LINK_CHANGED, message)
    else:
        condition = (LINK_PINNED, "True", LINK_PINNED, f"{link} is {digest}")
    conditions = set_conditions(present.conditions, [condition], template.metadata.generation, now)
    pinned = PinnedLink(url=link, version=version, digest=pin) if pin else None
    return structs.replace(present, pinned_link=pinned, conditions=conditions)
