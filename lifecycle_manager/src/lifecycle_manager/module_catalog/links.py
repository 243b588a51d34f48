"""What is behind the link to a template's objects: the content that was seen first.

Whoever may change the file behind a link would else change every cluster. So the digest of its content is recorded in
the status of the ModuleTemplate, which Lifecycle Manager alone writes, before anything is installed, and Manifests name
it. Another content of the same version is refused, and reported in the condition `LinkPinned`.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime

from msgspec import structs

from kube_runtime import Causes, Controller, Informer, KubeError, Manager, NotFound, ObjectKey, Result
from kyma_oci.references import content_digest
from lifecycle_manager.contract.resources import MODULE_TEMPLATES
from lifecycle_manager.contract.signals import DescriptorFound
from lifecycle_manager.module_catalog.affected import offer_changed
from lifecycle_manager.module_catalog.identity import version_of
from lifecycle_manager.module_catalog.offer import Offer, link_of, link_pin_of
from lifecycle_manager.module_catalog.template_status import TemplateStatuses
from lifecycle_manager.module_sources import DownloadFailed
from lifecycle_manager_api import ModuleTemplate, ModuleTemplateStatus, PinnedLink
from lifecycle_manager_api.conditions import NewCondition, set_conditions

PINNED, CHANGED, UNREADABLE = "LinkPinned", "LinkChanged", "LinkUnreadable"
RECHECK_SECONDS = 600.0
"""How soon another content behind a link is reported."""
READ_AGAIN_SECONDS = 15.0
"""How soon a link is read again that could not be read, or whose digest could not be recorded."""


def setup(
    manager: Manager, statuses: TemplateStatuses, fetch: Callable[[str], Awaitable[str]], offer: Callable[[], Offer]
) -> None:
    """Add the controller that records the digests of links. `fetch` returns a text, and raises DownloadFailed."""
    templates = manager.informer(MODULE_TEMPLATES)
    links = Links(manager, templates, statuses, fetch, offer)
    # Each replica reads them all: where the fleet is split, a replica has Kymas alone.
    controller: Controller[ObjectKey, None] = manager.controller("module-link", owner=lambda _: "")
    controller.watches(templates, when=offer_changed)
    controller.receives(DescriptorFound, to=lambda found: (ObjectKey(found.namespace, found.template),))
    controller.reconciles(links.reconcile)


@dataclass(frozen=True, eq=False)
class Links:
    manager: Manager
    templates: Informer[ModuleTemplate]
    statuses: TemplateStatuses
    fetch: Callable[[str], Awaitable[str]]
    offer: Callable[[], Offer]

    async def reconcile(self, key: ObjectKey, _causes: Causes, _state: None) -> Result:
        """Record the digest of a template's link, or report that its content is another one by now."""
        template = self.templates.get(key)
        if template is None or not self.offer().reads_link(template):
            return Result()
        try:
            content = (await self.fetch(link_of(template) or "")).encode()
        except DownloadFailed as error:
            digest, problem = "", str(error)
        else:
            digest, problem = content_digest(content), ""
        read, now = _read_of(template), self.manager.clock.now()

        def status_of(present: ModuleTemplate) -> ModuleTemplateStatus:
            if _read_of(present) != read:
                return present.status  # edited or created again meanwhile, for which it is read again
            return status_with(present, digest=digest, problem=problem, now=now)

        try:
            await self.statuses.write(template, status_of)
        except NotFound:
            return Result()  # the template is gone
        except KubeError:
            return Result(requeue_after=READ_AGAIN_SECONDS)
        return Result(requeue_after=RECHECK_SECONDS if digest else READ_AGAIN_SECONDS)


def _read_of(template: ModuleTemplate) -> tuple[str, str | None, str]:
    """Return what a content was read for."""
    return template.metadata.uid, link_of(template), version_of(template)


def status_with(template: ModuleTemplate, *, digest: str, problem: str, now: datetime) -> ModuleTemplateStatus:
    """Return the status of a template whose link has a content with this digest; "" where it can't be read."""
    present, link, version = template.status, link_of(template) or "", version_of(template)
    pin = link_pin_of(template) or digest
    if not digest:
        condition: NewCondition = (PINNED, "False", UNREADABLE, problem)
    elif digest != pin:
        message = (
            f"{link} is {digest} by now, which is not installed: version {version} is {pin}, as seen first. "
            "Publish another version, or delete the ModuleTemplate and create it again"
        )
        condition = (PINNED, "False", CHANGED, message)
    else:
        condition = (PINNED, "True", PINNED, f"{link} is {digest}")
    conditions = set_conditions(present.conditions, [condition], template.metadata.generation, now)
    pinned = PinnedLink(url=link, version=version, digest=pin) if pin else None
    return structs.replace(present, pinned_link=pinned, conditions=conditions)
