"""Reports on each ModuleTemplate by itself: whether it contradicts itself, and what is behind its link.

`agreement` and `links` say what is written for what was found.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial

from kube_runtime import Causes, Change, Controller, Informer, KubeError, Manager, NotFound, ObjectKey, Result
from kyma_oci.references import content_digest
from lifecycle_manager.contract.changes import versions
from lifecycle_manager.contract.resources import DATED_RELEASE_METAS, MODULE_TEMPLATES, DatedReleaseMeta
from lifecycle_manager.contract.signals import DescriptorFound
from lifecycle_manager.module_catalog import agreement, links
from lifecycle_manager.module_catalog.affected import offer_changed
from lifecycle_manager.module_catalog.identity import names_of
from lifecycle_manager.module_catalog.offer import Offer, link_of
from lifecycle_manager.module_catalog.template_status import TemplateStatuses
from lifecycle_manager.module_sources import DownloadFailed
from lifecycle_manager_api import ModuleTemplate, ModuleTemplateStatus

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
    controller.watches(manager.informer(DATED_RELEASE_METAS), to=reports.of_release, when=agreement.component_changed)
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
            template = await self.statuses.write(template, partial(agreement.status_with, why=why, now=now))
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
        read, now = links.pinned_for(template), self.manager.clock.now()

        def status_of(present: ModuleTemplate) -> ModuleTemplateStatus:
            if links.pinned_for(present) != read:
                return present.status  # edited or created again meanwhile, for which it is read again
            return links.status_with(present, digest=digest, problem=problem, now=now)

        await self.statuses.write(template, status_of)
        return Result(requeue_after=RECHECK_SECONDS if digest else RETRY_SECONDS)

    def of_release(self, change: Change[DatedReleaseMeta]) -> Iterable[ObjectKey]:
        """Return the templates of the release's module."""
        modules = {each.spec.module_name for each in versions(change)}
        return [MODULE_TEMPLATES.key_of(each) for each in self.templates.cache.list() if names_of(each) & modules]
